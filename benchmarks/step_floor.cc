// SPDX-License-Identifier: Apache-2.0
//
// The fraction of its floor that a training step of a GPT reaches on the CPU,
// and where the rest goes. The floor is the sum of
//
//   * each matmul at the speed of oneDNN's plain matmul of its sizes, and
//     attention's products at the best of these speeds;
//   * variables and gradients, read and written once at the speed of a copy.
//
// Speeds are measured in the same run, after the steps. With --threads=1 they
// and the step are in processor time, but the trace is in wall time.
//
//   step_floor --model=gpt2 --batch=4 --length=64 --precision=float32
//   step_floor --model=gpt2 --batch=1 --length=1024 --precision=bfloat16
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/plain_matmul.h"
#include "lowering/program/attention_size.h"
#include "lowering/program/einsum_plan.h"
#include "mtf/status.h"
#include "nlohmann/json.hpp"
#include "tools/models.h"
#include "train/session/session.h"

ABSL_FLAG(std::string, model, "gpt2", "a model of `mtf search`");
ABSL_FLAG(int64_t, batch, 4, "sequences of a step");
ABSL_FLAG(int64_t, length, 64, "tokens of a sequence");
ABSL_FLAG(int64_t, layers, 0, "layers; 0: those of the model");
ABSL_FLAG(std::string, precision, "float32", "float32 or bfloat16");
ABSL_FLAG(int, threads, 2, "threads");
ABSL_FLAG(int, steps, 4, "timed steps; the fastest counts");

namespace mtf {
namespace {

// The seconds of one call: those of the processor if one thread computes, which
// other processes change little, and those of the clock otherwise.
template <class Body>
double StepSecondsOf(const Body& body) {
  if (absl::GetFlag(FLAGS_threads) > 1) return SecondsOf(body);
  const auto processor_seconds = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) +
           1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double begin = processor_seconds();
  body();
  return processor_seconds() - begin;
}

template <class Body>
double LeastSecondsOf(int runs, const Body& body) {
  double least = StepSecondsOf(body);
  for (int i = 1; i < runs; ++i) least = std::min(least, StepSecondsOf(body));
  return least;
}

// Bytes read and written per second by a large copy on all threads.
double CopySpeed(int threads) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const double seconds = LeastSecondsOf(4, [&] {
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; ++i) {
      const int64_t begin = kBytes / threads * i;
      std::memcpy(&to[begin], &from[begin], kBytes / threads);
    }
  });
  return 2.0 * kBytes / seconds;
}

// Measures each size once.
class PlainSpeeds {
 public:
  explicit PlainSpeeds(int threads) : threads_(threads) {}

  double SecondsOfEinsum(DType dtype, const EinsumPlan& plan) {
    int64_t batch = 1, k = plan.k.extent;
    for (const EinsumLoop& loop : plan.batch) batch *= loop.extent;
    for (const EinsumLoop& loop : plan.outer_k) k *= loop.extent;
    const int64_t m = plan.m.extent, n = plan.n.extent;
    const auto [known, is_new] =
        seconds_.try_emplace({dtype, batch, m, n, k}, 0.0);
    if (!is_new) return known->second;
    PlainMatmul plain(dtype, batch, m, n, k, threads_);
    plain.Run();
    known->second = LeastSecondsOf(3, [&] { plain.Run(); });
    const double flops =
        2.0 * static_cast<double>(batch * m * n) * static_cast<double>(k);
    double& best = best_[dtype];
    best = std::max(best, flops / known->second);
    return known->second;
  }
  // FLOP/s, after the einsums.
  double Best(DType dtype) const { return best_.at(dtype); }

 private:
  const int threads_;
  std::map<std::tuple<DType, int64_t, int64_t, int64_t, int64_t>, double>
      seconds_;
  std::map<DType, double> best_;
};

// The time of one kind of instruction in a step, and its part of the floor.
struct Kind {
  int calls = 0;
  double seconds = 0, floor = 0;
};

// The seconds of the last traced step, by kind. An update is what the
// optimizer computes, by whatever instruction.
std::map<std::string, Kind> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  // Traced steps follow one another, each with the instructions in order.
  std::vector<std::map<std::string, Kind>> steps(1);
  std::map<std::string, int> seen;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event.value("ph", "") != "X" || !event["args"].contains("instruction"))
      continue;
    const std::string name = event["name"];
    const size_t step = seen[name]++;
    if (step >= steps.size()) steps.resize(step + 1);
    const std::string operation = event["args"].value("operation", "");
    std::string kind = event["args"]["instruction"];
    if (absl::StrContains(operation, "adamw")) kind = "update";
    Kind& sum = steps[step][kind];
    ++sum.calls;
    sum.seconds += event["dur"].get<double>() / 1e6;
  }
  return steps.back();
}

// Prints the step, its floor, and both by kind, the largest difference first.
void PrintFloor(double seconds, const std::map<std::string, Kind>& kinds) {
  double floor = 0, traced = 0;
  for (const auto& [name, kind] : kinds) {
    floor += kind.floor;
    traced += kind.seconds;
  }
  std::printf("step %.1f ms, floor %.1f ms: %.2f of the floor's speed\n",
              1e3 * seconds, 1e3 * floor, floor / seconds);
  std::printf("%-20s %6s %10s %10s %10s\n", "traced", "calls", "ms", "floor ms",
              "rest ms");
  std::vector<std::pair<std::string, Kind>> rows(kinds.begin(), kinds.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds - a.second.floor >
           b.second.seconds - b.second.floor;
  });
  for (const auto& [name, kind] : rows) {
    std::printf("%-20s %6d %10.1f %10.1f %10.1f\n", name.c_str(), kind.calls,
                1e3 * kind.seconds, 1e3 * kind.floor,
                1e3 * (kind.seconds - kind.floor));
  }
  std::printf("%-20s %6s %10.1f %10.1f %10.1f\n", "all", "", 1e3 * traced,
              1e3 * floor, 1e3 * (traced - floor));
}

absl::Status RunBenchmark() {
  const int threads = absl::GetFlag(FLAGS_threads);
  MTF_ASSIGN_OR_RETURN(GptSizes sizes, FindModel(absl::GetFlag(FLAGS_model)));
  sizes.batch = absl::GetFlag(FLAGS_batch);
  sizes.length = absl::GetFlag(FLAGS_length);
  const std::string precision = absl::GetFlag(FLAGS_precision);
  if (precision != "float32" && precision != "bfloat16") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--precision=", precision, " is neither float32 nor bfloat16"));
  }
  sizes.dtype = precision == "bfloat16" ? kBFloat16 : kFloat32;
  if (const int64_t layers = absl::GetFlag(FLAGS_layers); layers > 0) {
    sizes.layers = layers;
  }
  MTF_ASSIGN_OR_RETURN(const GptStep step, BuildGpt(sizes));
  const std::string trace =
      std::filesystem::temp_directory_path() / "mtf_step_floor.json";
  train::SessionOptions options;
  options.threads_per_rank = threads;
  options.trace = trace;
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(*step.graph, "", "", options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const train::RunRequest request = {.feeds = FeedsOf(sizes),
                                     .fetches = step.targets.fetches,
                                     .updates = step.targets.updates};
  for (int64_t i = 0; i < options.trace_steps; ++i) {
    MTF_RETURN_IF_ERROR(session->Run(request).status());
  }
  absl::Status status;
  const double seconds = LeastSecondsOf(absl::GetFlag(FLAGS_steps), [&] {
    status.Update(session->Run(request).status());
  });
  MTF_RETURN_IF_ERROR(status);
  std::map<std::string, Kind> kinds = ReadTrace(trace);
  std::filesystem::remove(trace);

  MTF_ASSIGN_OR_RETURN(const Program* program, session->ProgramOf(request));
  PlainSpeeds speeds(threads);
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode == Opcode::kEinsum) {
      const ProgramValue& x = program->values[instruction.operands[0]];
      kinds["einsum"].floor += speeds.SecondsOfEinsum(
          x.dtype, *instruction.Get<EinsumAttributes>().plan);
    }
  }
  for (const Instruction& instruction : program->instructions) {
    if (!IsAttention(instruction.opcode)) continue;
    const double flops = SizeOfAttention(*program, instruction).Flops();
    kinds[std::string(OpcodeName(instruction.opcode))].floor +=
        flops / speeds.Best(sizes.dtype);
  }
  double variable_bytes = 0, gradient_bytes = 0;
  for (const ProgramVariable& variable : program->variables) {
    const double bytes = static_cast<double>(variable.shape.num_elements() *
                                             DTypeSize(variable.dtype));
    variable_bytes += bytes;
    if (variable.section == RuleSection::kParameters) gradient_bytes += bytes;
  }
  const double copy = CopySpeed(threads);
  kinds["update"].floor += 2 * (variable_bytes + gradient_bytes) / copy;

  std::printf(
      "%s, %lld x %lld, %s, %d threads: best plain matmul %.0f GFLOP/s, "
      "copy %.1f GB/s\n",
      absl::GetFlag(FLAGS_model).c_str(), static_cast<long long>(sizes.batch),
      static_cast<long long>(sizes.length),
      std::string(DTypeName(sizes.dtype)).c_str(), threads,
      speeds.Best(sizes.dtype) / 1e9, copy / 1e9);
  PrintFloor(seconds, kinds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = mtf::RunBenchmark();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
