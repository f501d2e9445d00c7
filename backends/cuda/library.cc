// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicators/wait_options.h"
#include "backends/cuda/driver_api.h"
#include "mtf/status.h"

// The configuration of this build, set by MtfCuda.cmake.
#ifndef MTF_CUDA_SUMMARY
#define MTF_CUDA_SUMMARY "off"
#endif
#ifndef MTF_CUDA_INSTALL_FOLDER
#define MTF_CUDA_INSTALL_FOLDER "/usr/local/lib"
#endif
#ifndef MTF_INSTALL_LIBDIR  // relative to the prefix
#define MTF_INSTALL_LIBDIR "lib"
#endif

namespace mtf::cuda {
namespace {

constexpr char kFile[] = "libmtf_cuda.so";
constexpr char kVariable[] = "MTF_CUDA_LIBRARY";
#ifdef MTF_HAS_CUDA
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif

// The folder of `path`, or "".
std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string FolderOfProgram() {
  char path[PATH_MAX + 1];
  const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  return length <= 0 ? "" : FolderOf(std::string(path, length));
}

std::string FolderOfThisCode() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&FolderOf), &info) == 0 ||
      info.dli_fname == nullptr) {
    return "";
  }
  return FolderOf(info.dli_fname);
}

// The folders in which the dynamic linker searches the libraries of the
// program: LD_LIBRARY_PATH, the program's run path and the system's.
// mtf::backends of an installed package adds the folder of its libraries to the
// run path.
std::vector<std::string> LinkerFolders() {
  void* program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size;
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) {
    return {};
  }
  const std::unique_ptr<void, void (*)(void*)> memory(
      std::malloc(size.dls_size), &std::free);
  auto* info = static_cast<Dl_serinfo*>(memory.get());
  if (info == nullptr) return {};
  *info = size;
  if (dlinfo(program, RTLD_DI_SERINFO, info) != 0) return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) {
    folders.push_back(info->dls_serpath[i].dls_name);
  }
  return folders;
}

absl::Status Missing(const std::vector<std::string>& paths) {
  if (!kBuiltWithCuda) {
    return absl::UnimplementedError(absl::StrCat(
        "this build has no device \"cuda\": CUDA is ", MTF_CUDA_SUMMARY,
        "\n  help     configure with -DMTF_WITH_CUDA=ON, or set ", kVariable,
        " to the ", kFile, " of a build of these sources"));
  }
  return absl::NotFoundError(
      absl::StrCat("the CUDA driver library of mtf, ", kFile, ", was not found",
                   "\n  searched ", absl::StrJoin(paths, "\n           "),
                   "\n  help     set ", kVariable,
                   " to the file, or add its folder to LD_LIBRARY_PATH"));
}

absl::StatusOr<void*> OpenDriver() {
  const std::vector<std::string> paths = DriverPaths();
  std::string path;
  for (const std::string& candidate : paths) {
    if (access(candidate.c_str(), R_OK) != 0) continue;
    path = candidate;
    break;
  }
  if (path.empty()) {
    const char* asked = std::getenv(kVariable);
    if (asked == nullptr || *asked == '\0') return Missing(paths);
    return absl::NotFoundError(
        absl::StrCat("file \"", asked, "\" does not exist; ", kVariable,
                     " must name the CUDA driver library of mtf"));
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "cannot load the CUDA driver library of mtf: ", dlerror(),
        "\n  file     ", path,
        "\n  help     install the missing library, or add its folder to "
        "LD_LIBRARY_PATH"));
  }
  auto* abi = reinterpret_cast<MtfCudaAbi*>(dlsym(library, kMtfCudaAbi));
  if (abi == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", path, "\" is not a CUDA driver library of mtf: it has ",
        "no function ", kMtfCudaAbi));
  }
  if (abi() != kDriverAbi) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", path,
                     "\" was built from other sources than this program: its "
                     "interface version is ",
                     abi(), ", not ", kDriverAbi,
                     "\n  help     build and install both together"));
  }
  return library;
}

template <typename F>
absl::StatusOr<F*> Find(const char* name) {
  MTF_ASSIGN_OR_RETURN(void* function, FindDriverFunction(name));
  return reinterpret_cast<F*>(function);
}

}  // namespace

std::vector<std::string> DriverPaths() {
  const char* asked = std::getenv(kVariable);
  if (asked != nullptr && *asked != '\0') return {asked};
  std::vector<std::string> paths;
  const auto add = [&](const std::string& folder) {
    if (folder.empty()) return;
    const std::string candidate = absl::StrCat(folder, "/", kFile);
    for (const std::string& known : paths) {
      if (known == candidate) return;
    }
    paths.push_back(candidate);
  };
  const std::string program = FolderOfProgram();
  add(program);
  if (!program.empty()) {
    add(absl::StrCat(FolderOf(program), "/lib"));
    add(absl::StrCat(FolderOf(program), "/", MTF_INSTALL_LIBDIR));
  }
  add(FolderOfThisCode());
#ifdef MTF_CUDA_BUILD_FOLDER
  add(MTF_CUDA_BUILD_FOLDER);
#endif
  for (const std::string& folder : LinkerFolders()) add(folder);
  add(MTF_CUDA_INSTALL_FOLDER);
  return paths;
}

absl::StatusOr<void*> FindDriverFunction(const char* name) {
  // Opened once, also if that fails: another try would give the same error.
  // Never closed, because runtimes use its code.
  static std::mutex mutex;
  static std::map<std::string, void*> libraries;  // by the paths searched
  std::lock_guard<std::mutex> lock(mutex);
  const std::string key = absl::StrJoin(DriverPaths(), ":");
  auto library = libraries.find(key);
  if (library == libraries.end()) {
    MTF_ASSIGN_OR_RETURN(void* opened, OpenDriver());
    library = libraries.emplace(key, opened).first;
  }
  void* function = dlsym(library->second, name);
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CUDA driver library of mtf has no function ", name));
  }
  return function;
}

absl::StatusOr<std::shared_ptr<Runtime>> OpenGpu(int ordinal) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Runtime>> runtimes;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Runtime>& known = runtimes[ordinal];
  if (std::shared_ptr<Runtime> runtime = known.lock()) return runtime;
  MTF_ASSIGN_OR_RETURN(MtfCudaOpen * open, Find<MtfCudaOpen>(kMtfCudaOpen));
  const DriverOptions options{ordinal, CollectiveTimeout()};
  absl::StatusOr<std::shared_ptr<Runtime>> runtime;
  open(&options, &runtime);
  if (runtime.ok()) known = *runtime;
  return runtime;
}

absl::StatusOr<std::string> CompileForGpu(const KernelSource& source,
                                          int architecture) {
  MTF_ASSIGN_OR_RETURN(MtfCudaCompile * compile,
                       Find<MtfCudaCompile>(kMtfCudaCompile));
  absl::StatusOr<std::string> code;
  compile(&source, architecture, &code);
  return code;
}

absl::Status CheckAttention(const AttentionProblem& problem,
                            const std::string& device) {
  MTF_ASSIGN_OR_RETURN(MtfCudaCheckAttention * check,
                       Find<MtfCudaCheckAttention>(kMtfCudaCheckAttention));
  absl::Status status;
  check(&problem, &device, &status);
  return status;
}

absl::Status CheckConvolution(const ConvolutionProblem& problem,
                              const std::string& device) {
  MTF_ASSIGN_OR_RETURN(MtfCudaCheckConvolution * check,
                       Find<MtfCudaCheckConvolution>(kMtfCudaCheckConvolution));
  absl::Status status;
  check(&problem, &device, &status);
  return status;
}

}  // namespace mtf::cuda
