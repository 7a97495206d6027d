/* A program looks at the ways of a call and chooses for itself. */
#include "ranks.h"
#include "test.h"

#define IS(call, wanted) CHECK_EQ(call, wanted)

struct wish {
    const char *name; /* NULL: one that is refused; "": no way at all */
    uint32_t    asked;
};

static uint32_t choose(void *context, ringtree_collective collective, size_t bytes, const ringtree_way *ways,
                       uint32_t number, uint32_t predicted)
{
    struct wish *wish = context;
    wish->asked++;
    CHECK(predicted < number && !ways[predicted].refusal && ways[predicted].chosen);
    if (collective == RINGTREE_BARRIER) return predicted;
    CHECK_EQ(bytes, 4000);
    for (uint32_t i = 0; i < number; i++)
        if (wish->name ? !strcmp(ways[i].name, wish->name) : ways[i].refusal != NULL) return i;
    return UINT32_MAX;
}

static void add(struct rank *self, ringtree_status wanted)
{
    float in[1000], out[1000];
    for (int i = 0; i < 1000; i++) in[i] = (float)self->rank + 1;
    IS(ringtree_all_reduce(self->comm, in, out, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), wanted);
    if (wanted == RINGTREE_OK) CHECK(out[0] == 10 && out[999] == 10);
}

static void follow(struct rank *self)
{
    struct wish wish = { "tree", 0 };
    char text[4096];
    IS(ringtree_set_tuner(self->comm, choose, &wish), RINGTREE_OK);
    add(self, RINGTREE_OK);
    add(self, RINGTREE_OK);
    CHECK_EQ(wish.asked, 1); /* kept */
    CHECK_EQ(strcmp(rank_chosen_way(self), "tree"), 0);
    IS(ringtree_plan_explain(self->comm, RINGTREE_ALL_REDUCE, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, text, sizeof text),
       RINGTREE_OK);
    CHECK_HAS(text, "* tree");
    CHECK_HAS(text, "ringtree_set_tuner");
    IS(ringtree_set_tuner(self->comm, NULL, NULL), RINGTREE_OK);
    add(self, RINGTREE_OK);
    CHECK_EQ(wish.asked, 1);
}

TEST(a_tuner_chooses_until_it_is_taken_away)
{
    RANKS(follow, .ranks = 4, .processes = 2, .transports = "shm");
    RANKS(follow, .ranks = 4, .processes = 4, .transports = "tcp");
}

static void refuse(struct rank *self)
{
    struct wish wish = { NULL, 0 };
    IS(ringtree_set_tuner(self->comm, choose, &wish), RINGTREE_OK);
    add(self, RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(self->comm), "needs at least two nodes"); /* hierarchical */
    wish.name = "";
    add(self, RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(self->comm), "no such way");
    wish.name = "ring";
    add(self, RINGTREE_OK);
}

TEST(a_choice_that_is_impossible_is_an_error_of_that_call_alone)
{
    RANKS(refuse, .ranks = 4, .processes = 2, .transports = "shm");
}

static void differ(struct rank *self)
{
    struct wish wish = { self->rank == 2 ? "tree" : "ring", 0 };
    float y[1000] = { 0 }, z[1000];
    IS(ringtree_set_tuner(self->comm, choose, &wish), RINGTREE_OK);
    ranks_meet(self);
    IS(ringtree_all_reduce(self->comm, y, z, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_MISMATCH);
    CHECK_HAS(ringtree_last_error(self->comm), "way");
}

TEST(ranks_whose_tuners_differ_learn_it_as_a_mismatch)
{
    RANKS(differ, .ranks = 4, .processes = 4, .transports = "tcp", .timeout_ms = 20000);
    RANKS(differ, .ranks = 4, .processes = 4, .transports = "shm", .timeout_ms = 20000);
}

static uint32_t call_back(void *self, ringtree_collective collective, size_t bytes, const ringtree_way *ways,
                          uint32_t number, uint32_t predicted)
{
    ringtree_comm *comm = ((struct rank *)self)->comm;
    float          x = 1, y;
    (void)collective, (void)bytes, (void)ways, (void)number;
    IS(ringtree_all_reduce(comm, &x, &y, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "must not call ringtree");
    IS(ringtree_set_tuner(comm, NULL, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK(strcmp(rank_chosen_way(self), "no ways") == 0);
    return predicted;
}

static void be_called_back(struct rank *self)
{
    IS(ringtree_set_tuner(self->comm, call_back, self), RINGTREE_OK);
    add(self, RINGTREE_OK);
    IS(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
}

TEST(a_tuner_that_calls_ringtree_is_refused)
{
    RANKS(be_called_back, .ranks = 4, .processes = 4, .transports = "tcp");
    RANKS(be_called_back, .ranks = 4);
}

static void setting_wins(struct rank *self)
{
    struct wish wish = { "tree", 0 };
    IS(ringtree_set_tuner(self->comm, choose, &wish), RINGTREE_OK);
    add(self, RINGTREE_OK);
    CHECK_EQ(strcmp(rank_chosen_way(self), "halving"), 0);
    CHECK_EQ(wish.asked, 0);
}

TEST(the_setting_goes_before_the_tuner)
{
    RANKS(setting_wins, .ranks = 4, .processes = 2, .transports = "tcp", .algorithm = "all_reduce=halving");
}

static void look(struct rank *self)
{
    ringtree_way ways[RINGTREE_MOST_WAYS];
    size_t number = 99, chosen = 0, refused = 0;
    IS(ringtree_plan_ways(self->comm, RINGTREE_ALL_REDUCE, 1 << 20, RINGTREE_FLOAT32, ways, RINGTREE_MOST_WAYS,
                          &number), RINGTREE_OK);
    for (size_t i = 0; i < number; i++) {
        chosen += ways[i].chosen;
        refused += ways[i].refusal != NULL;
        CHECK(ways[i].refusal || (ways[i].seconds > 0 && ways[i].lanes >= 1 && ways[i].slice_bytes > 0));
    }
    CHECK_EQ(chosen, 1);
    CHECK_EQ(refused, 1); /* shared */
    IS(ringtree_plan_ways(self->comm, RINGTREE_SEND_RECV, 1, RINGTREE_FLOAT32, ways, 1, &number), RINGTREE_OK);
    CHECK_EQ(number, 0);
    IS(ringtree_plan_ways(self->comm, RINGTREE_ALL_REDUCE, 1, RINGTREE_FLOAT32, ways, 2, &number), RINGTREE_OK);
    CHECK_EQ(number, 2);
    IS(ringtree_plan_ways(self->comm, RINGTREE_ALL_REDUCE, SIZE_MAX, RINGTREE_FLOAT32, ways, 2, &number),
       RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_plan_ways(NULL, RINGTREE_ALL_REDUCE, 1, RINGTREE_FLOAT32, ways, 2, &number),
       RINGTREE_INVALID_ARGUMENT);
}

/* The way that comes first is left only for one that is clearly faster; what is said of the choice must be true. */
static void ask(struct rank *self)
{
    bool least_said = false, other_said = false;
    for (size_t count = 1; count <= 1 << 22; count *= 2) {
        ringtree_way ways[RINGTREE_MOST_WAYS];
        char text[4096];
        size_t number, chosen = 0;
        bool least = true;
        IS(ringtree_plan_ways(self->comm, RINGTREE_ALL_REDUCE, count, RINGTREE_FLOAT32, ways, RINGTREE_MOST_WAYS,
                              &number), RINGTREE_OK);
        IS(ringtree_plan_explain(self->comm, RINGTREE_ALL_REDUCE, count, RINGTREE_FLOAT32, RINGTREE_SUM, text,
                                 sizeof text), RINGTREE_OK);
        while (chosen < number && !ways[chosen].chosen) chosen++;
        for (size_t i = 0; i < number; i++) least &= ways[i].refusal || ways[i].seconds >= ways[chosen].seconds;
        CHECK_HAS(text, least ? "* chosen: the least predicted" : "* chosen: none is predicted to be clearly faster");
        *(least ? &least_said : &other_said) = true;
    }
    CHECK(least_said && other_said);
}

TEST(a_choice_is_called_the_least_only_where_it_is)
{
    RANKS(ask, .ranks = 2, .processes = 2);
}

TEST(the_ways_of_a_call_are_told_as_data)
{
    RANKS(look, .ranks = 3, .processes = 3, .transports = "tcp", .settings = (const char *const[]){
          "RINGTREE_HOST=here", NULL });
}

TEST_MAIN
