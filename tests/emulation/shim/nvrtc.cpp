// NVIDIA's run-time compiler for tests of what is around it: an image is the text that `driver.cpp` takes for one.

#include <cstring>
#include <string>

namespace {

struct Program {
    std::string name, image;
};

const char REASON[] = "the emulated compiler takes no such call";

}   // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 0;
    return 0;
}

int nvrtcCreateProgram(void** program, const char*, const char* name, int, const char* const*, const char* const*) {
    *program = new Program{name, ""};
    return 0;
}

int nvrtcDestroyProgram(void** program) {
    delete static_cast<Program*>(*program);
    *program = nullptr;
    return 0;
}

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
    auto* made = static_cast<Program*>(program);
    made->image = "emulated image of " + made->name;
    for (int i = 0; i < count; ++i) made->image += std::string(" ") + options[i];
    return 0;
}

int nvrtcGetProgramLogSize(void*, size_t* size) {
    *size = 1;
    return 0;
}

int nvrtcGetProgramLog(void*, char* log) {
    *log = '\0';
    return 0;
}

int nvrtcGetCUBINSize(void* program, size_t* size) {
    *size = static_cast<Program*>(program)->image.size() + 1;
    return 0;
}

int nvrtcGetCUBIN(void* program, char* image) {
    std::strcpy(image, static_cast<Program*>(program)->image.c_str());
    return 0;
}

int nvrtcGetPTXSize(void* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(void* program, char* image) { return nvrtcGetCUBIN(program, image); }
const char* nvrtcGetErrorString(int) { return REASON; }

}   // extern "C"
