/*
 * What is believed of a link between machines that was not measured (RINGTREE_CALIBRATE=off or cached): the speed that
 * the system tells of the interface, and a latency that such interfaces usually have with TCP. Ranks of one machine in
 * network namespaces are joined by copying; what the system says of such an interface's speed is made up.
 */
#include "calibrate.h"

static const struct {
    uint32_t mbit;
    double   latency;
} assumed[] = { { 100000, 8e-6 }, { 25000, 10e-6 }, { 10000, 15e-6 }, { 1000, 30e-6 }, { 100, 120e-6 }, { 0, 1e-3 } };

bool rt_on_one_machine(const ringtree_comm *comm)
{
    const struct rt_place *places = rt_control_places(comm->control);
    uint32_t r = 1;
    while (r < comm->nranks && places[r].machine_key == places[0].machine_key) r++;
    return r == comm->nranks;
}

void rt_assume_network(struct rt_costs *costs, uint32_t mbit, bool one_machine)
{
    struct rt_link_cost *link = &costs->link[RT_LINK_NETWORK];
    uint32_t row = 0;
    if (one_machine) {
        *link = costs->link[RT_LINK_LOOPBACK];
    } else if (mbit) {
        while (mbit < assumed[row].mbit) row++;
        link->latency = assumed[row].latency;
        link->wire_byte = 8e-6 / mbit;
    }
}
