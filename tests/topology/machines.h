/* The recorded machines of tests/topology/machines. */
#ifndef RT_TEST_MACHINES_H
#define RT_TEST_MACHINES_H

static const char *const machine_files[] = {
    "aws-g5.48xl.xml", "aws-p4d-24xl.xml", "aws-p5.xml", "azure-ndv2.xml", "azure-ndv4.xml", "oci-H100-topology.xml",
};
enum { MACHINE_FILES = sizeof(machine_files) / sizeof(*machine_files) };

#endif
