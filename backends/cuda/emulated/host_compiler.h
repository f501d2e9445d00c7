// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_EMULATED_HOST_COMPILER_H_
#define BACKENDS_CUDA_EMULATED_HOST_COMPILER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/cuda/emulated/prelude.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Compiles kernels with the host's C++ compiler: CXX from the environment, else
// the compiler that built this library. Libraries are cached in the folder
// "emulated" of the user's cache (disk_cache.h), by a hash of text and
// compiler, or in a temporary folder if there is no cache. Not thread-safe;
// processes may share a folder.
class HostCompiler {
 public:
  HostCompiler();
  ~HostCompiler();
  HostCompiler(const HostCompiler&) = delete;
  HostCompiler& operator=(const HostCompiler&) = delete;

  // The key of the text under the current options.
  std::string KeyOf(const KernelSource& source) const;
  // The kernel of this key, or null if it has not been compiled.
  const EmulatedKernel* Find(const std::string& key);
  // Compiles all texts, which Find then returns. kInternal contains the
  // compiler's errors and the path of the text.
  absl::Status Compile(absl::Span<const KernelSource> sources);

 private:
  std::string compiler_, options_, folder_;
  bool temporary_ = false;
  std::map<std::string, const EmulatedKernel*> kernels_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_HOST_COMPILER_H_
