// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CUDA_DESCRIBED_GPU_H_
#define TESTS_BACKENDS_CUDA_DESCRIBED_GPU_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace mtf::cuda {

// The description that cuDNN 9 writes for a GPU of capability `version` / 100.
inline std::string DescribedGpu(int version) {
  return absl::StrCat(
      "{\"deviceName\":\"GPU\",\"cudaDeviceId\":0,\"deviceVer\":", version,
      ",\"driverVer\":13000,\"maxGridSize\":[2147483647,65535,65535],"
      "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
      "\"multiProcessorCount\":132,\"warpSize\":32,"
      "\"maxSharedMemoryPerBlock\":49152,"
      "\"maxSharedMemoryPerBlockOptin\":232448,"
      "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
      "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
      "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
      "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,"
      "\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
      "\"totalGlobalMem\":150754820096}");
}

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_DESCRIBED_GPU_H_
