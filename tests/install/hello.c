/* The shortest useful program, built against an installed ringtree by each way that users have. C and C++ alike. */
#include <ringtree/ringtree.h>
#include <stdio.h>

int main(void)
{
    ringtree_comm *comm = NULL;
    float          in = 1, out = 0;
    if (ringtree_init(&comm)) return puts(ringtree_last_error(NULL)), 1;
    if (ringtree_all_reduce(comm, &in, &out, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL))
        return puts(ringtree_last_error(comm)), 1;
    printf("rank %u of %u: %g\n", ringtree_rank(comm), ringtree_size(comm), out);
    const int right = out == (float)ringtree_size(comm);
    ringtree_destroy(comm);
    return !right;
}
