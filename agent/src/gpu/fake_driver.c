// A CUDA driver for tests: as many devices as DEVICES says, or one way to fail.
#include <stddef.h>
#include <stdio.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef BUSY
#define BUSY 0
#endif

int cuInit(unsigned flags) { return flags == 0 ? INIT : 1; }
int cuDriverGetVersion(int* version) { *version = 12080; return 0; }
#ifndef STUB
int cuDeviceGetCount(int* count) { *count = DEVICES; return 0; }
#endif
int cuDeviceGet(int* device, int number) { *device = number; return BUSY; }
int cuDeviceGetName(char* name, int length, int device) { snprintf(name, length, "Emulated GPU %d", device); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = device < DEVICES ? (size_t)80 << 30 : 0; return 0; }

// Attributes of an H100: capability, multiprocessors, second-level cache, shared memory of a block.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    (void)device;
    switch (attribute) {
        case 75: *value = 9; return 0;
        case 76: *value = 0; return 0;
        case 16: *value = 132; return 0;
        case 38: *value = 50 << 20; return 0;
        case 97: *value = 227 << 10; return 0;
        default: return 1;
    }
}
