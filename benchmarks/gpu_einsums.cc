// SPDX-License-Identifier: Apache-2.0
//
// Single kernels, prepared directly on the device.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/gpu_benchmark.h"
#include "mtf/status.h"
#include "tools/one_instruction.h"

namespace mtf {
namespace {

using Sizes = std::map<char, int64_t>;

struct EinsumCase {
  std::string name, x, y, z;  // one letter per dimension
  Sizes sizes;
  DType dtype;
};

// Batch, m, n and k of the matmul with the same work.
std::vector<int64_t> MatmulSizes(const EinsumCase& einsum) {
  std::vector<int64_t> sizes(4, 1);
  for (const auto& [letter, size] : einsum.sizes) {
    const auto in = [letter = letter](const std::string& letters) {
      return letters.find(letter) != std::string::npos;
    };
    if (!in(einsum.x) && !in(einsum.y)) continue;
    const int role = !in(einsum.z)                  ? 3
                     : in(einsum.x) && in(einsum.y) ? 0
                     : in(einsum.x)                 ? 1
                                                    : 2;
    sizes[role] *= size;
  }
  return sizes;
}

std::string SizesText(const EinsumCase& einsum) {
  const std::vector<int64_t> sizes = MatmulSizes(einsum);
  return absl::StrFormat(",\"sizes\":[%d,%d,%d,%d]", sizes[0], sizes[1],
                         sizes[2], sizes[3]);
}

// peers/einsum_torch.py has the same tables.
std::vector<EinsumCase> Cases(bool tiny) {
  using Model = std::pair<std::string, Sizes>;
  const std::vector<Model> full = {{"124M",
                                    {{'b', 64},
                                     {'l', 1024},
                                     {'m', 1024},
                                     {'d', 768},
                                     {'f', 3072},
                                     {'h', 12},
                                     {'k', 64},
                                     {'v', 50304}}},
                                   {"1558M",
                                    {{'b', 16},
                                     {'l', 1024},
                                     {'m', 1024},
                                     {'d', 1600},
                                     {'f', 6400},
                                     {'h', 25},
                                     {'k', 64},
                                     {'v', 50304}}}};
  const std::vector<Model> small = {{"tiny",
                                     {{'b', 2},
                                      {'l', 16},
                                      {'m', 16},
                                      {'d', 64},
                                      {'f', 256},
                                      {'h', 2},
                                      {'k', 32},
                                      {'v', 256}}}};
  const char* const einsums[][4] = {
      {"query", "bld", "dhk", "blhk"},    {"ff_in", "bld", "df", "blf"},
      {"ff_out", "blf", "fd", "bld"},     {"logits", "bld", "vd", "blv"},
      {"scores", "blhk", "bmhk", "bhlm"}, {"context", "bhlm", "bmhk", "blhk"},
      {"ff_in_dx", "blf", "df", "bld"},   {"ff_in_dw", "bld", "blf", "df"},
      {"logits_dw", "blv", "bld", "vd"},
  };
  const std::pair<DType, const char*> dtypes[] = {{kBFloat16, "bfloat16"},
                                                  {kFloat32, "float32"}};
  std::vector<EinsumCase> cases;
  for (const auto& [model, sizes] : tiny ? small : full) {
    for (const auto& [name, x, y, z] : einsums) {
      for (const auto& [dtype, dtype_name] : dtypes) {
        cases.push_back(
            {absl::StrCat("einsum/", model, "/", name, "/", dtype_name), x, y,
             z, sizes, dtype});
      }
    }
  }
  if (tiny) return cases;
  const Sizes square = {{'i', 8192}, {'j', 8192}, {'k', 8192}};
  for (const auto& [dtype, name] : dtypes) {
    cases.push_back({absl::StrCat("einsum/square/", name), "ij", "jk", "ik",
                     square, dtype});
  }
  return cases;
}

Shape ShapeOf(const std::string& letters, const Sizes& sizes) {
  std::vector<Dimension> dims;
  for (char letter : letters) {
    dims.push_back({std::string(1, letter), sizes.at(letter)});
  }
  return Shape(std::move(dims));
}

}  // namespace

absl::Status MeasureCopy(const GpuBenchmark& settings) {
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, settings.Open());
  device->EnterThread();
  const int64_t bytes = settings.tiny ? 1 << 20 : int64_t{4} << 30;
  MTF_ASSIGN_OR_RETURN(void* from, device->Allocate(bytes));
  absl::StatusOr<void*> to = device->Allocate(bytes);
  if (!to.ok()) device->Free(from);
  MTF_RETURN_IF_ERROR(to.status());
  StepContext context;
  const std::unique_ptr<Kernel> copy =
      device->PrepareCopy(*to, from, {.inner = bytes});
  absl::StatusOr<Timing> timing = Timing();
  if (absl::Status begun = device->BeginStep(context); begun.ok()) {
    timing = Measure(
        [&] {
          copy->Run(context);
          return absl::OkStatus();
        },
        [&] { return device->Finish(context); }, settings.repeats,
        settings.tiny ? 0 : 2);
  } else {
    timing = begun;
  }
  device->Free(from);
  device->Free(*to);
  MTF_RETURN_IF_ERROR(timing.status());
  Emit(settings, "ceiling/copy", "GB/s",
       2e-6 * static_cast<double>(bytes) / timing->milliseconds, *timing,
       absl::StrCat(",\"bytes\":", 2 * bytes));
  return absl::OkStatus();
}

absl::Status MeasureEinsums(const GpuBenchmark& settings) {
  for (const EinsumCase& einsum : Cases(settings.tiny)) {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, settings.Open());
    OneInstruction one(std::move(device));
    one.instruction = Instruction(Opcode::kEinsum);
    one.AddOperand(ShapeOf(einsum.x, einsum.sizes), einsum.dtype);
    one.AddOperand(ShapeOf(einsum.y, einsum.sizes), einsum.dtype);
    one.SetResult(ShapeOf(einsum.z, einsum.sizes), einsum.dtype);
    if (absl::Status status = one.TryPrepare(); !status.ok()) {
      if (!absl::IsUnimplemented(status)) return status;
      EmitSkip(settings, einsum.name, status);
      continue;
    }
    MTF_ASSIGN_OR_RETURN(const Timing timing,
                         Measure(
                             [&] {
                               one.Run();
                               return absl::OkStatus();
                             },
                             [&] { return one.Finish(); }, settings.repeats,
                             settings.tiny ? 0 : 2));
    double flops = 2;
    for (int64_t size : MatmulSizes(einsum)) {
      flops *= static_cast<double>(size);
    }
    Emit(settings, einsum.name, "TFLOP/s", 1e-9 * flops / timing.milliseconds,
         timing, SizesText(einsum));
  }
  return absl::OkStatus();
}

void ListEinsums(bool tiny) {
  for (const EinsumCase& einsum : Cases(tiny)) {
    absl::PrintF("{\"schema\":1,\"benchmark\":\"%s\",\"program\":\"mtf\"%s}\n",
                 einsum.name, SizesText(einsum));
  }
}

}  // namespace mtf
