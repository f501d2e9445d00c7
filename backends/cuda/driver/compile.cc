// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/compile.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// The output of NVRTC: code of a real architecture or PTX of a virtual one.
struct Target {
  int architecture = 0;
  bool ptx = false;
  std::string ToString() const {
    return absl::StrCat(ptx ? "compute_" : "sm_", architecture);
  }
};

absl::StatusOr<Target> TargetFor(int architecture) {
  int count = 0;
  MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcGetNumSupportedArchs(&count)));
  std::vector<int> known(count);
  MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcGetSupportedArchs(known.data())));
  int best = 0;
  for (int each : known) {
    if (each <= architecture) best = std::max(best, each);
  }
  if (best == 0) {
    return absl::UnimplementedError(absl::StrCat(
        "NVRTC has no code for GPUs of compute capability ", architecture / 10,
        ".", architecture % 10, "; the oldest it knows is ", known.front()));
  }
  // Machine code runs on later GPUs of the same generation only.
  return Target{best, best / 10 != architecture / 10};
}

std::string Version() {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return absl::StrCat(major, ".", minor);
}

const std::vector<std::string>& Options() {
  static const auto* options = new std::vector<std::string>{"--std=c++17"};
  return *options;
}

// "strided_copy(12): error: ..." -> line 12 of the text, or "".
std::string FirstLineNamed(const std::string& log, const KernelSource& source) {
  const std::string start = absl::StrCat(source.name, ".cu(");
  const size_t at = log.find(start);
  if (at == std::string::npos) return "";
  const size_t from = at + start.size();
  int line = 0;
  if (!absl::SimpleAtoi(log.substr(from, log.find(')', from) - from), &line)) {
    return "";
  }
  const std::vector<std::string> lines = absl::StrSplit(source.text, '\n');
  if (line < 1 || line > static_cast<int>(lines.size())) return "";
  return absl::StrCat("\n  line ", line, "  ", lines[line - 1]);
}

// Destroys the program at the end of its scope.
struct ProgramOwner {
  nvrtcProgram program = nullptr;
  ~ProgramOwner() {
    if (program != nullptr) nvrtcDestroyProgram(&program);
  }
};

}  // namespace

absl::StatusOr<std::string> CompileKernel(const KernelSource& source,
                                          int architecture) {
  MTF_ASSIGN_OR_RETURN(const Target target, TargetFor(architecture));
  ProgramOwner owner;
  MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcCreateProgram(
      &owner.program, source.text.c_str(),
      absl::StrCat(source.name, ".cu").c_str(), 0, nullptr, nullptr)));
  std::vector<std::string> texts = Options();
  texts.push_back(absl::StrCat("--gpu-architecture=", target.ToString()));
  std::vector<const char*> options;
  for (const std::string& text : texts) options.push_back(text.c_str());
  const nvrtcResult compiled = nvrtcCompileProgram(
      owner.program, static_cast<int>(options.size()), options.data());
  if (compiled != NVRTC_SUCCESS) {
    size_t size = 0;
    std::string log;
    if (nvrtcGetProgramLogSize(owner.program, &size) == NVRTC_SUCCESS) {
      log.resize(size);
      nvrtcGetProgramLog(owner.program, log.data());
      while (!log.empty() && log.back() == '\0') log.pop_back();
    }
    return absl::InternalError(
        absl::StrCat("kernel \"", source.name, "\" does not compile for ",
                     target.ToString(), ": ", nvrtcGetErrorString(compiled),
                     FirstLineNamed(log, source), "\n", log));
  }
  size_t size = 0;
  std::string code;
  if (target.ptx) {
    MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcGetPTXSize(owner.program, &size)));
    code.resize(size);  // includes the terminating null
    MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcGetPTX(owner.program, code.data())));
  } else {
    MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcGetCUBINSize(owner.program, &size)));
    code.resize(size);
    MTF_RETURN_IF_ERROR(MTF_NVRTC(nvrtcGetCUBIN(owner.program, code.data())));
  }
  return code;
}

absl::Status CudaFunction::AllowShared(int64_t bytes, int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes <= allowed_) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(MTF_CUDA(cudaKernelSetAttributeForDevice(
      kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(bytes), device)));
  allowed_ = bytes;
  return absl::OkStatus();
}

KernelLibrary::KernelLibrary(int device, int architecture)
    : device_(device),
      architecture_(architecture),
      cache_(DiskCache::Folder("kernels")) {}

KernelLibrary::~KernelLibrary() {
  for (auto& [key, loaded] : kernels_) {
    if (loaded.library != nullptr) cudaLibraryUnload(loaded.library);
  }
}

absl::Status KernelLibrary::Load(const std::string& code,
                                 const std::string& name, Loaded* loaded) {
  cudaLibrary_t library = nullptr;
  MTF_RETURN_IF_ERROR(MTF_CUDA(cudaLibraryLoadData(
      &library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0)));
  cudaKernel_t kernel = nullptr;
  const absl::Status found =
      MTF_CUDA(cudaLibraryGetKernel(&kernel, library, name.c_str()));
  if (!found.ok()) {
    cudaLibraryUnload(library);
    return found;
  }
  loaded->library = library;
  loaded->function = std::make_unique<CudaFunction>(kernel, name);
  return absl::OkStatus();
}

absl::StatusOr<Function*> KernelLibrary::Find(const KernelSource& source) {
  const std::string key = absl::StrCat(source.name, "\n", source.text);
  std::lock_guard<std::mutex> lock(mutex_);
  Loaded& loaded = kernels_[key];
  if (loaded.function != nullptr) return loaded.function.get();
  const std::string disk_key =
      absl::StrCat("nvrtc ", Version(), " sm_", architecture_, " ",
                   absl::StrJoin(Options(), " "), "\n", key);
  if (const auto code = cache_.Find(disk_key); code.has_value()) {
    // A cached file that this driver rejects is replaced.
    if (Load(*code, source.name, &loaded).ok()) return loaded.function.get();
  }
  MTF_ASSIGN_OR_RETURN(const std::string code,
                       CompileKernel(source, architecture_));
  MTF_RETURN_IF_ERROR(Load(code, source.name, &loaded));
  cache_.Keep(disk_key, code);
  return loaded.function.get();
}

}  // namespace mtf::cuda
