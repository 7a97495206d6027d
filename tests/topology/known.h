/* Machines whose best bus bandwidth is known, with why it is that. docs/topology.md has the same table. */
#ifndef TEST_KNOWN_H
#define TEST_KNOWN_H

static const struct { const char *name, *text; float gbs; } known[] = {
    /* 12 NVLinks of 20 GB/s; 18 of 20.6; 6 of 20: each GPU sends over all of its links */
    { "DGX A100", "2 socket: 2 pci pcie:4x16: 2 gpu pcie:4x16 nvlink:12 switch sm:80; 2 nic 200G pcie:4x16", 240 },
    { "DGX H100", "2 socket: 4 pci pcie:5x16: gpu pcie:5x16 nvlink:18 switch sm:90; nic 400G pcie:5x16", 370.8f },
    { "DGX-1V", "2 socket: 2 pci pcie:3x16: 2 gpu pcie:3x16 nvlink:6 cube sm:70; nic 100G pcie:3x16", 120 },
    { "4 GPUs, full NVLink", "4 gpu nvlink:12 mesh sm:80", 240 },
    /* one PCIe link each way of each GPU; the link between sockets */
    { "4 GPUs on a PCIe switch", "socket: pci pcie:3x16: 4 gpu pcie:3x16", 12 },
    { "4 GPUs on two sockets", "2 socket: 2 gpu pcie:3x16", 10 },
    { "8 GPUs on two sockets", "2 socket: 2 pci pcie:3x16: 2 gpu pcie:3x16", 10 },
    { "8 GPUs on two EPYCs", "2 socket link:16: 4 gpu pcie:4x16", 16 },
    { "pairs by NVLink", "socket: pci pcie:4x16: 2 gpu pcie:4x16 nvlink:4 ring sm:80", 80 },
    /* NICs: as many as there are, no more than the PCIe links of the GPUs beside them */
    { "2 A100, 1 NIC",
      "2 node: socket: (4 pci pcie:4x16: (2 gpu pcie:4x16 nvlink:12 switch); pci: nic 100G pcie:4x16)", 12.5f },
    { "2 A100, 1 NIC at the other socket",
      "2 node: socket: (4 pci pcie:4x16: 2 gpu pcie:4x16 nvlink:12 switch); socket: nic 100G pcie:4x16", 10 },
    { "2 A100, 2 NICs", "2 node: 2 socket: pci pcie:4x16: 4 gpu pcie:4x16 nvlink:12 switch; nic 100G pcie:4x16", 25 },
    { "2 A100, 4 NICs", "2 node: 2 socket: 2 pci pcie:4x16: 2 gpu pcie:4x16 nvlink:12 switch; nic 100G pcie:4x16", 50 },
    { "16 A100, 8 NICs",
      "16 node: 2 socket: 2 pci pcie:4x16: 2 gpu pcie:4x16 nvlink:12 switch; 2 nic 200G pcie:4x16", 192 },
    { "16 H100, 8 NICs",
      "16 node: 2 socket: 4 pci pcie:5x16: gpu pcie:5x16 nvlink:18 switch sm:90; nic 400G pcie:5x16", 370.8f },
    { "4 nodes of cores", "4 node: 2 socket: 8 core; nic 100G pcie:4x16", 10 },
    { "64 nodes, no GPU", "64 node: nic 200G pcie:4x16", 24 },
    { "two PCIe-only nodes of two sockets, rings in opposite directions",
      "2 node: 2 socket: 2 pci pcie:4x16: 3 gpu pcie:4x16; nic 100G pcie:4x16", 20 },
    { "p4d", "2 node: 2 socket: 2 pci pcie:3x16: 2 gpu pcie:3x16 nvlink:12 switch; nic 100G pcie:3x16", 48 },
};

#endif
