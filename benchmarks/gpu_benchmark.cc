// SPDX-License-Identifier: Apache-2.0
//
// Measures a device on the building blocks of language models and prints lines
// of JSON (benchmarks/peers/README.md): einsums; maps, norms, loss and
// optimizer relative to a copy; eight virtual devices relative to one;
// allocated memory relative to the plan. Runs on every device, though slowly on
// some.
//   gpu_benchmark --device=cuda
//   gpu_benchmark --device=cpu --size=tiny --only=kernels
#include "benchmarks/gpu_benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/loop/flag_types.h"
#include "train/loop/run_main.h"

ABSL_FLAG(std::string, device, "cuda", "the device to measure");
ABSL_FLAG(std::string, size, "full", "full or tiny");
ABSL_FLAG(std::string, only, "copy,einsums,kernels,launches,meshes,memory",
          "the parts to run");
ABSL_FLAG(mtf::train::Size, repeats, 20, "timed runs of each measurement");
ABSL_FLAG(bool, list, false, "prints names and sizes of the einsums only");

namespace mtf {

absl::StatusOr<std::unique_ptr<Device>> GpuBenchmark::Open() const {
  return CreateDevice(device, {.num_threads = 1});
}

absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& run,
                               const std::function<absl::Status()>& wait,
                               int repeats, double least_ms) {
  using Clock = std::chrono::steady_clock;
  const auto time = [&](int64_t times) -> absl::StatusOr<double> {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < times; ++i) MTF_RETURN_IF_ERROR(run());
    MTF_RETURN_IF_ERROR(wait());
    return std::chrono::duration<double, std::milli>(Clock::now() - begin)
               .count() /
           static_cast<double>(times);
  };
  // Warms up: an idle GPU has low clocks.
  const double warm_ms = least_ms > 0 ? 200 : 0;
  const Clock::time_point begin = Clock::now();
  do {
    MTF_RETURN_IF_ERROR(time(3).status());
  } while (
      std::chrono::duration<double, std::milli>(Clock::now() - begin).count() <
      warm_ms);
  MTF_ASSIGN_OR_RETURN(const double once, time(1));
  const auto inner =
      std::max<int64_t>(1, static_cast<int64_t>(least_ms / (once + 1e-6)));
  std::vector<double> times(repeats);
  for (double& ms : times) {
    MTF_ASSIGN_OR_RETURN(ms, time(inner));
  }
  std::sort(times.begin(), times.end());
  const size_t quarter = times.size() / 4;
  Timing timing;
  timing.milliseconds = times[times.size() / 2];
  timing.spread = (times[times.size() - 1 - quarter] - times[quarter]) /
                  timing.milliseconds;
  return timing;
}

void Emit(const GpuBenchmark& settings, const std::string& name,
          const std::string& unit, double value, const Timing& timing,
          const std::string& more) {
  absl::PrintF(
      "{\"schema\":1,\"benchmark\":\"%s\",\"program\":\"mtf\",\"device\":"
      "\"%s\",\"unit\":\"%s\",\"value\":%.6g,\"milliseconds\":%.6g,\"spread\":"
      "%.3g,\"repeats\":%d%s}\n",
      name, settings.device, unit, value, timing.milliseconds, timing.spread,
      settings.repeats, more);
  std::fflush(stdout);
}

void EmitSkip(const GpuBenchmark& settings, const std::string& name,
              const absl::Status& reason) {
  std::string text = std::string(reason.message());
  for (char& c : text) {
    if (c == '"' || c == '\\') c = '\'';
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  absl::PrintF(
      "{\"schema\":1,\"benchmark\":\"%s\",\"program\":\"mtf\",\"device\":"
      "\"%s\",\"skipped\":\"%s\"}\n",
      name, settings.device, text);
  std::fflush(stdout);
}

namespace {

struct BenchmarkPart {
  const char* name;
  absl::Status (*measure)(const GpuBenchmark& settings);
};
constexpr BenchmarkPart kParts[] = {
    {"copy", &MeasureCopy},       {"einsums", &MeasureEinsums},
    {"kernels", &MeasureKernels}, {"launches", &MeasureLaunches},
    {"meshes", &MeasureMeshes},   {"memory", &MeasureMemory}};

// Prints the files of CUDA's libraries that this process has loaded, whose
// names usually contain the version.
void PrintLibraries() {
  std::set<std::string> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos || line.find('"') != std::string::npos) {
      continue;
    }
    for (const char* name : {"/libcublasLt.", "/libcudnn.", "/libnccl.",
                             "/libnvrtc.", "/libcudart.", "/libcuda."}) {
      if (line.find(name) != std::string::npos) paths.insert(line.substr(path));
    }
  }
  if (paths.empty()) return;
  absl::PrintF("{\"schema\":1,\"libraries\":[\"%s\"]}\n",
               absl::StrJoin(paths, "\",\""));
}

absl::Status Unknown(const std::string& flag, const std::string& value,
                     const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " has ", Quoted(value),
                   DetailLine("known", absl::StrJoin(known, ", "))));
}

absl::Status Main() {
  GpuBenchmark settings;
  settings.device = absl::GetFlag(FLAGS_device);
  settings.repeats = static_cast<int>(absl::GetFlag(FLAGS_repeats));
  const std::string size = absl::GetFlag(FLAGS_size);
  if (size != "full" && size != "tiny") {
    return Unknown("size", size, {"full", "tiny"});
  }
  settings.tiny = size == "tiny";
  if (absl::GetFlag(FLAGS_list)) {
    ListEinsums(settings.tiny);
    return absl::OkStatus();
  }
  std::vector<std::string> known;
  for (const BenchmarkPart& part : kParts) known.emplace_back(part.name);
  const std::vector<std::string> chosen =
      absl::StrSplit(absl::GetFlag(FLAGS_only), ',');
  for (const std::string& name : chosen) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Unknown("only", name, known);
    }
  }
  // An unknown name is an error; a missing device is a reason to skip.
  const absl::StatusOr<std::unique_ptr<Device>> device = settings.Open();
  if (absl::IsInvalidArgument(device.status())) return device.status();
  for (const BenchmarkPart& part : kParts) {
    if (std::find(chosen.begin(), chosen.end(), part.name) == chosen.end()) {
      continue;
    }
    if (!device.ok()) {
      EmitSkip(settings, part.name, device.status());
      continue;
    }
    MTF_RETURN_IF_ERROR(part.measure(settings));
  }
  PrintLibraries();
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Measures a device on building blocks of language models.",
      &mtf::Main);
}
