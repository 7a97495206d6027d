/* ringtree-info as a person runs it: what it prints, what it refuses, how it ends. */
#include "base/settings.h"
#include "test.h"
#include <sys/wait.h>

static char output[1 << 18];

/* Runs it with those variables and arguments; its exit status. Both outputs are in `output`. */
static int run(const char *variables, const char *arguments)
{
    char command[1024];

    snprintf(command, sizeof(command), "env %s '%s' %s 2>&1", variables, INFO, arguments);
    FILE *pipe = popen(command, "r");
    size_t length = pipe ? fread(output, 1, sizeof(output) - 1, pipe) : 0;
    output[length] = '\0';
    int status = pipe ? pclose(pipe) : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(it_prints_build_machine_addresses_and_every_setting)
{
    CHECK_EQ(run("", ""), 0);
    CHECK_HAS(output, "  version          0.1.0\n");
    CHECK_HAS(output, "\nMachine\n");
    CHECK_HAS(output, "  reduction        ");
    CHECK_HAS(output, "Network addresses");
    for (int i = 0; i < RT_SETTING_COUNT; i++)
        CHECK_HAS(output, rt_setting_table[i].name);
    CHECK_EQ(run("", "--settings"), 0);
    CHECK(!strstr(output, "Machine"));
    CHECK_HAS(output, "  RINGTREE_TIMEOUT_MS = 300000 ms (default)\n");
}

TEST(it_says_where_a_value_comes_from_and_hides_the_secret)
{
    CHECK_EQ(run("RINGTREE_PORT=77 RINGTREE_ID=c0ffee", "--settings"), 0);
    CHECK_HAS(output, "RINGTREE_PORT = 77 (environment)");
    CHECK_HAS(output, "RINGTREE_ID = (hidden) (environment)");
    CHECK(!strstr(output, "c0ffee"));
}

TEST(a_wrong_setting_ends_it_with_1_and_the_sentence_and_still_lists_the_settings)
{
    CHECK_EQ(run("RINGTREE_PROT=77", ""), 1);
    CHECK_HAS(output, "ringtree-info: environment: \"RINGTREE_PROT\" is no setting of ringtree; "
                      "the nearest is RINGTREE_PORT");
    CHECK_HAS(output, "RINGTREE_TIMEOUT_MS = ");
    CHECK_EQ(run("RINGTREE_INTERFACE==nothere", ""), 1);
    CHECK_HAS(output, "\"nothere\" is no interface; this machine has: ");
    CHECK_EQ(run("RINGTREE_CONFIG=/no/such/file", ""), 1);
    CHECK_HAS(output, "No such file or directory");
}

TEST(a_bad_command_line_ends_it_with_2)
{
    CHECK_EQ(run("", "--nonsense"), 2);
    CHECK_HAS(output, "--help");
    CHECK_EQ(run("", "nonsense"), 2);
    CHECK_EQ(run("", "--help"), 0);
    CHECK_HAS(output, "Exit status: 0");
    CHECK_EQ(run("", "--version"), 0);
    CHECK_HAS(output, "ringtree-info 0.1.0");
}

TEST(output_that_cannot_be_written_is_a_failure)
{
    CHECK_EQ(run("", "> /dev/full"), 1);
}

TEST(its_json_holds_the_same)
{
#ifdef RINGTREE_JSON
    CHECK_EQ(run("RINGTREE_HOST=\"$(printf 'a\\377b')\" RINGTREE_ID=c0ffee", "--json"), 0);
    CHECK_HAS(output, "\"RINGTREE_TIMEOUT_MS\": {");
    CHECK_HAS(output, "\"value\": \"(not UTF-8)\"");
    CHECK_HAS(output, "\"addresses\": [");
    CHECK(!strstr(output, "c0ffee"));
    CHECK_EQ(run("RINGTREE_PORT=x", "--json"), 1);
    CHECK_HAS(output, "\"errors\": [\n    \"environment: RINGTREE_PORT is");
#else
    CHECK_EQ(run("", "--json"), 2);
    CHECK_HAS(output, "libjansson-dev");
#endif
}

TEST_MAIN
