// NVIDIA's management library for tests of its reader: one device, of which some things are known. Structures and codes are those
// of NVML's documentation.
#include <string.h>

enum { SUCCESS = 0, NOT_FOUND = 6 };

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char* nvmlErrorString(int code) { return code == NOT_FOUND ? "not found" : "an error of the emulated library"; }

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
    strncpy(version, "580.0-emulated", length);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    static int one;
    *device = &one;
    return strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") == 0 ? SUCCESS : NOT_FOUND;
}

// Graphics, SM, memory, video.
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* megahertz) {
    (void)device;
    *megahertz = clock == 2 ? 2619 : 1755;
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned* megahertz) {
    (void)device;
    *megahertz = clock == 2 ? 2619 : 1980;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
    (void)device;
    (void)sensor;
    *celsius = 41;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    (void)device;
    *milliwatts = 119500;
    return SUCCESS;
}

// A power cap, which is noted and drops no sample.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
    (void)device;
    *reasons = 4;
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* generation) {
    (void)device;
    *generation = 5;
    return SUCCESS;
}
