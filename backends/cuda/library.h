// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_LIBRARY_H_
#define BACKENDS_CUDA_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Where the shared object of the driver is looked for, in order:
// MTF_CUDA_LIBRARY alone where that is set; else beside the program, in the
// folder lib beside the program's, beside the library that holds this code, and
// where "cmake --install" puts it.
std::vector<std::string> DriverPlaces();

// A function that the shared object exports (driver_api.h). Opens it once for
// the life of the process. kUnimplemented in a build without CUDA, naming the
// option; kNotFound where the file or a library that it needs is missing,
// saying which; kFailedPrecondition where it was built from other sources.
absl::StatusOr<void*> FindDriverFunction(const char* name);

// Machine code of a kernel for GPUs of `architecture` (90), as NVRTC makes it;
// needs no GPU. Errors as above, and of Runtime::Compile.
//
//   MTF_ASSIGN_OR_RETURN(std::string code, CompileForGpu(source, 90));
absl::StatusOr<std::string> CompileForGpu(const KernelSource& source,
                                          int architecture);

// Whether cuDNN takes `problem` on a GPU as `device` describes it (a text of
// cuDNN's own); needs no GPU.
absl::Status CheckAttention(const AttentionProblem& problem,
                            const std::string& device);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_LIBRARY_H_
