// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/emulated/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "backends/cuda/disk_cache.h"
#include "mtf/status.h"

extern char** environ;

namespace mtf::cuda {
namespace {

namespace fs = std::filesystem;

// FNV-1a from two starting values: 128 bits.
std::string HashText(absl::string_view text) {
  uint64_t a = 0xcbf29ce484222325u, b = 0x84222325cbf29ce4u;
  for (const char c : text) {
    a = (a ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    b = (b ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    b ^= b >> 29;
  }
  return absl::StrFormat("%016x%016x", a, b);
}

bool CanWrite(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return !error && access(folder.c_str(), W_OK | X_OK) == 0;
}

std::string MakeTemporaryFolder() {
  const char* base = std::getenv("TMPDIR");
  std::string name =
      absl::StrCat(base != nullptr ? base : "/tmp", "/mtf_emulated_XXXXXX");
  return mkdtemp(name.data()) != nullptr ? name : "";
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs a program with its errors in `log`; returns whether it succeeded.
bool RunProgram(const std::vector<std::string>& arguments,
                const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  pid_t process = 0;
  const int failed =
      posix_spawnp(&process, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    std::ofstream(log) << argv[0] << ": "
                       << std::generic_category().message(failed) << "\n";
    return false;
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

HostCompiler::HostCompiler() {
  const char* compiler = std::getenv("CXX");
  compiler_ =
      compiler != nullptr && *compiler != '\0' ? compiler : MTF_HOST_COMPILER;
  // The compiler must not contract separate operations.
  options_ =
      "-std=c++20 -O1 -fPIC -shared -w -pipe -ffp-contract=off "
      "-fno-math-errno -fno-exceptions -fno-asynchronous-unwind-tables";
#if defined(__SANITIZE_ADDRESS__)
  options_ += " -fsanitize=address";
#endif
  folder_ = DiskCache::Folder("emulated");
  if (!folder_.empty() && !CanWrite(folder_)) folder_.clear();
  if (folder_.empty()) {
    folder_ = MakeTemporaryFolder();
    temporary_ = true;
  }
}

HostCompiler::~HostCompiler() {
  std::error_code ignored;
  if (temporary_ && !folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string HostCompiler::KeyOf(const KernelSource& source) const {
  return HashText(absl::StrCat(compiler_, "\n", options_, "\n", source.name,
                               "\n", EmulationPrelude(), source.text));
}

const EmulatedKernel* HostCompiler::Find(const std::string& key) {
  const auto it = kernels_.find(key);
  if (it != kernels_.end()) return it->second;
  const std::string path = absl::StrCat(folder_, "/", key, ".so");
  if (access(path.c_str(), R_OK) != 0) return nullptr;
  // Never closed: kernels live as long as the process.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto* kernel = static_cast<const EmulatedKernel*>(
      dlsym(library, absl::StrCat("kernel_", key).c_str()));
  if (kernel != nullptr) kernels_[key] = kernel;
  return kernel;
}

absl::Status HostCompiler::Compile(absl::Span<const KernelSource> sources) {
  if (sources.empty()) return absl::OkStatus();
  if (folder_.empty()) {
    return absl::InternalError("cannot create a folder for compiled kernels");
  }
  const std::string base =
      absl::StrCat(folder_, "/", KeyOf(sources[0]), "_", getpid());
  const std::string text_path = base + ".cc", made = base + ".made",
                    log = base + ".log";
  {
    std::ofstream file(text_path);
    file << EmulationPrelude();
    for (size_t i = 0; i < sources.size(); ++i) {
      // Each text has its own namespace; entry points are outside of it.
      const std::string name = absl::StrCat(sources[i].name, "_", i);
      file << "#define " << sources[i].name << " " << name << "\nnamespace k"
           << i << " {\n"
           << sources[i].text
           << EmulationEpilogue(name,
                                absl::StrCat("kernel_", KeyOf(sources[i])))
           << "}\n#undef " << sources[i].name << "\n";
    }
    if (!file) {
      return absl::InternalError(absl::StrCat("cannot write ", text_path));
    }
  }
  std::vector<std::string> arguments = absl::StrSplit(compiler_, ' ');
  for (absl::string_view option : absl::StrSplit(options_, ' ')) {
    arguments.emplace_back(option);
  }
  arguments.insert(arguments.end(), {"-o", made, text_path, "-lm"});
  if (!RunProgram(arguments, log)) {
    const std::string said = ReadText(log);
    std::remove(log.c_str());
    return absl::InternalError(absl::StrCat(
        "the host's compiler rejects kernel ", sources[0].name,
        sources.size() > 1 ? " or another one compiled with it" : "",
        "\n  text  ", text_path, "\n", said.substr(0, 4000)));
  }
  // Links one library per kernel under its key. Replaces an existing file,
  // which must be one that could not be loaded.
  for (const KernelSource& source : sources) {
    const std::string path = absl::StrCat(folder_, "/", KeyOf(source), ".so");
    const std::string linked = absl::StrCat(path, ".", getpid());
    std::remove(linked.c_str());  // left over from a killed process
    if (link(made.c_str(), linked.c_str()) == 0 &&
        std::rename(linked.c_str(), path.c_str()) == 0) {
      continue;
    }
    return absl::InternalError(absl::StrCat(
        "cannot keep ", path, ": ", std::generic_category().message(errno)));
  }
  std::remove(made.c_str());
  std::remove(text_path.c_str());
  std::remove(log.c_str());
  for (const KernelSource& source : sources) {
    if (Find(KeyOf(source)) == nullptr) {
      const char* const said = dlerror();
      return absl::InternalError(absl::StrCat("cannot load kernel ",
                                              source.name, ": ",
                                              said != nullptr ? said : ""));
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf::cuda
