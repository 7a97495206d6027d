/*
 * Stands in for libnvidia-ml: four GPUs, 0000:01..04:00.0, of compute capability 9.0. GPU 0 has two links to GPU 1 and
 * one that is down; GPU 2 and 3 have three links to the switch 0000:0a:00.0. FAKE_NVML=broken: it does not start.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci_info {
    char     legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char     busid[32];
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info);
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *is_active);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *info);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);

static char gpu[4];

static unsigned index_of(void *device)
{
    return (unsigned)((char *)device - gpu);
}

int nvmlInit_v2(void)
{
    const char *how = getenv("FAKE_NVML");

    return how && strcmp(how, "broken") == 0 ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 4;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &gpu[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info)
{
    snprintf(info->busid, sizeof(info->busid), "00000000:0%u:00.0", index_of(device) + 1);
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    (void)device;
    *major = 9;
    *minor = 0;
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *is_active)
{
    *is_active = link != 2 || index_of(device) >= 2;
    return link < 3 ? 0 : 2;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *info)
{
    (void)link;
    if (index_of(device) >= 2)
        strcpy(info->busid, "00000000:0A:00.0");
    else
        snprintf(info->busid, sizeof(info->busid), "00000000:0%u:00.0", 2 - index_of(device));
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type)
{
    (void)link;
    *type = index_of(device) >= 2 ? 2 : 0;
    return 0;
}
