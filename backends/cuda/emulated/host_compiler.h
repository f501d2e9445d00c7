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

// Makes kernels callable with the host's C++ compiler: CXX where the
// environment has one, else the compiler that built this library. What was
// compiled stays in the folder "emulated" of the user's cache (disk_cache.h),
// by the content of its text and the compiler, or in a temporary one where
// there is none. Not safe for several threads at once; several processes may
// share a folder.
class HostCompiler {
 public:
  HostCompiler();
  ~HostCompiler();
  HostCompiler(const HostCompiler&) = delete;
  HostCompiler& operator=(const HostCompiler&) = delete;

  // A name for the text under these options, equal for equal ones.
  std::string KeyOf(const KernelSource& source) const;
  // The kernel of that key where it has been compiled, else null.
  const EmulatedKernel* Find(const std::string& key);
  // Compiles all at once; Find has them then. kInternal with what the compiler
  // says, and where the text is.
  absl::Status Compile(absl::Span<const KernelSource> sources);

 private:
  std::string compiler_, options_, folder_;
  bool temporary_ = false;
  std::map<std::string, const EmulatedKernel*> kernels_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_HOST_COMPILER_H_
