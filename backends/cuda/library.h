// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_LIBRARY_H_
#define BACKENDS_CUDA_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Paths at which the driver's shared object is searched, in order:
// MTF_CUDA_LIBRARY only, if set; else the program's folder, the folders for
// libraries next to it (lib, lib64 and the like), the folder of the library
// that contains this code, the folders of the dynamic linker (LD_LIBRARY_PATH,
// the program's run path, the system's), and the install folder.
std::vector<std::string> DriverPaths();

// Returns a function exported by the shared object (driver_api.h), which is
// opened once per process. kUnimplemented in a build without CUDA names the
// option; kNotFound names the missing file or library; kFailedPrecondition if
// the shared object was built from other sources.
absl::StatusOr<void*> FindDriverFunction(const char* name);

// Compiles a kernel with NVRTC to machine code for GPUs of `architecture` (90);
// needs no GPU. Errors as above and as for Runtime::Compile.
//
//   MTF_ASSIGN_OR_RETURN(std::string code, CompileForGpu(source, 90));
absl::StatusOr<std::string> CompileForGpu(const KernelSource& source,
                                          int architecture);

// OK if cuDNN supports `problem` on a GPU described by `device` (in cuDNN's own
// format); needs no GPU.
absl::Status CheckAttention(const AttentionProblem& problem,
                            const std::string& device);
// The same for a convolution.
absl::Status CheckConvolution(const ConvolutionProblem& problem,
                              const std::string& device);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_LIBRARY_H_
