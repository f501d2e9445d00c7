// SPDX-License-Identifier: Apache-2.0
//
// Einsums of a transformer on the CPU device, compared with oneDNN's plain
// matmul of the same batch, m, n and k on contiguous matrices. Both alternate
// within one run, so that other load on the machine slows both. Counters:
//   GF       GFLOP/s of the device, from the median time
//   plain    GFLOP/s of the plain matmul
//   ratio    GF / plain: the cost of the order of dimensions
//
//   einsum_benchmark --benchmark_filter='f32/T:1'
//   GOMP_SPINCOUNT=1000 einsum_benchmark --benchmark_filter='f32/T:2'
//
// With several threads the variable is needed: by default the OpenMP threads of
// the plain matmul spin on while the device computes, and take its cores.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "benchmarks/plain_matmul.h"
#include "tools/one_instruction.h"

namespace mtf {
namespace {

using Sizes = std::map<char, int64_t>;

Shape ShapeOf(const std::string& letters, const Sizes& sizes) {
  std::vector<Dimension> dims;
  for (char letter : letters) {
    dims.push_back({std::string(1, letter), sizes.at(letter)});
  }
  return Shape(std::move(dims));
}

double Median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return times[times.size() / 2];
}

struct EinsumCase {
  std::string name, x, y, z;
};

void RunCase(benchmark::State& state, const EinsumCase& einsum,
             const Sizes& sizes, DType dtype, int threads) {
  OneInstruction device(threads);
  device.instruction = Instruction(Opcode::kEinsum);
  device.AddOperand(ShapeOf(einsum.x, sizes), dtype);
  device.AddOperand(ShapeOf(einsum.y, sizes), dtype);
  device.SetResult(ShapeOf(einsum.z, sizes), dtype);
  device.Prepare();
  // A letter is batch, m, n or k by the operands that have it.
  int64_t batch = 1, m = 1, n = 1, k = 1;
  for (const auto& [letter, size] : sizes) {
    const bool in_x = einsum.x.find(letter) != std::string::npos;
    const bool in_y = einsum.y.find(letter) != std::string::npos;
    const bool in_z = einsum.z.find(letter) != std::string::npos;
    if (in_x && in_y) (in_z ? batch : k) *= size;
    if (in_x && !in_y) m *= size;
    if (in_y && !in_x) n *= size;
  }
  // The library's own division of work, by OpenMP; the device has another.
  PlainMatmul plain(dtype, batch, m, n, k, threads);
  const auto run_plain = [&] { plain.Run(); };
  run_plain();
  device.Run();
  std::vector<double> ours, theirs;
  for (auto _ : state) {
    ours.push_back(SecondsOf([&] { device.Run(); }));
    theirs.push_back(SecondsOf(run_plain));
    state.SetIterationTime(ours.back());
  }
  const double flops = 2.0 * batch * m * n * k;
  state.counters["GF"] = flops / Median(ours) / 1e9;
  state.counters["plain"] = flops / Median(theirs) / 1e9;
  state.counters["ratio"] = Median(theirs) / Median(ours);
}

void Register() {
  const std::vector<EinsumCase> cases = {
      {"project", "bld", "dhk", "blhk"},
      {"project_dx", "blhk", "dhk", "bld"},
      {"project_dw", "bld", "blhk", "dhk"},
      {"scores", "blhk", "bmhk", "bhlm"},
      {"scores_dq", "bhlm", "bmhk", "blhk"},
      {"scores_dk", "bhlm", "blhk", "bmhk"},
      {"context", "bhlm", "bmhk", "blhk"},
      {"context_da", "blhk", "bmhk", "bhlm"},
      {"context_dv", "bhlm", "blhk", "bmhk"},
      {"output", "blhk", "hkd", "bld"},
      {"output_dx", "bld", "hkd", "blhk"},
      {"output_dw", "blhk", "bld", "hkd"},
      {"ff1", "bld", "df", "blf"},
      {"ff1_dx", "blf", "df", "bld"},
      {"ff1_dw", "bld", "blf", "df"},
      {"ff2", "blf", "fd", "bld"},
      {"ff2_dx", "bld", "fd", "blf"},
      {"ff2_dw", "blf", "bld", "fd"},
      {"logits", "bld", "vd", "blv"},
      {"logits_dx", "blv", "vd", "bld"},
      {"logits_dw", "blv", "bld", "vd"},
      // orders that neither fold into a matmul nor are contiguous
      {"turned_heads", "blhk", "khd", "bld"},
      {"length_first", "lbd", "dhk", "bhlk"},
  };
  const std::vector<std::pair<std::string, Sizes>> models = {
      {"small",
       {{'b', 8},
        {'l', 128},
        {'m', 128},
        {'d', 256},
        {'h', 8},
        {'k', 32},
        {'f', 1024},
        {'v', 256}}},
      {"gpt2",
       {{'b', 4},
        {'l', 256},
        {'m', 256},
        {'d', 768},
        {'h', 12},
        {'k', 64},
        {'f', 3072},
        {'v', 8192}}},
  };
  for (const auto& [model, sizes] : models) {
    for (DType dtype : {kFloat32, kBFloat16}) {
      for (int threads : {1, 2}) {
        for (const EinsumCase& einsum : cases) {
          const std::string name = model + "/" + std::string(DTypeName(dtype)) +
                                   "/T:" + std::to_string(threads) + "/" +
                                   einsum.name;
          benchmark::RegisterBenchmark(
              name.c_str(),
              [einsum, sizes = sizes, dtype, threads](benchmark::State& state) {
                RunCase(state, einsum, sizes, dtype, threads);
              })
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond)
              ->MinTime(0.2);
        }
      }
    }
  }
}

const bool registered = (Register(), true);

}  // namespace
}  // namespace mtf
