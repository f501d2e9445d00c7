// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/codegen/kernel_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/rounding.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// Blocks of a grid-stride loop per multiprocessor: a few times what is resident
// there, so that the last ones to finish do not leave it idle.
constexpr int64_t kBlocksPerMultiprocessor = 32;

}  // namespace

void Launch::Enqueue(Runtime& runtime) const {
  std::vector<void*> pointers;
  pointers.reserve(arguments.size());
  for (const uint64_t& argument : arguments) {
    pointers.push_back(const_cast<uint64_t*>(&argument));
  }
  runtime.Launch(*function, shape, pointers);
}

std::string KernelWriter::AddMemory(const void* data, absl::string_view type,
                                    int64_t bytes, bool written) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.data == data && parameter.type == type &&
        parameter.bytes == bytes && parameter.written == written) {
      return parameter.name;
    }
  }
  Parameter parameter;
  parameter.type = std::string(type);
  parameter.name =
      written ? absl::StrCat("y", writes_++) : absl::StrCat("x", reads_++);
  parameter.data = data;
  parameter.bytes = bytes;
  parameter.written = written;
  parameter.argument = reinterpret_cast<uintptr_t>(data);
  parameters_.push_back(parameter);
  return parameter.name;
}

std::string KernelWriter::Read(const void* data, DType dtype,
                               int64_t elements) {
  return AddMemory(data, StorageType(dtype), elements * DTypeSize(dtype),
                   false);
}
std::string KernelWriter::Write(void* data, DType dtype, int64_t elements) {
  return AddMemory(data, StorageType(dtype), elements * DTypeSize(dtype), true);
}
std::string KernelWriter::ReadAs(const void* data, absl::string_view type,
                                 int64_t bytes) {
  return AddMemory(data, type, bytes, false);
}
std::string KernelWriter::WriteAs(void* data, absl::string_view type,
                                  int64_t bytes) {
  return AddMemory(data, type, bytes, true);
}

std::string KernelWriter::Number(int64_t value) {
  Parameter parameter;
  parameter.name = absl::StrCat("n", numbers_++);
  parameter.argument = static_cast<uint64_t>(value);
  parameters_.push_back(parameter);
  return parameter.name;
}

void KernelWriter::SetIndexReach(int64_t reach) {
  wide_ = wide_ || reach >= (int64_t{1} << 30);
}

std::string KernelWriter::GridLoop(absl::string_view index,
                                   int64_t count) const {
  return absl::StrCat("  for (Index ", index, " = (Index)blockIdx.x * ",
                      threads_, " + threadIdx.x; ", index, " < ", count, "; ",
                      index, " += (Index)gridDim.x * ", threads_, ") {\n");
}

LaunchShape KernelWriter::ShapeFor(const GpuInfo& info, int64_t threads) const {
  const int64_t most = info.multiprocessors * kBlocksPerMultiprocessor;
  return {.blocks = std::clamp<int64_t>(CeilDivide(threads, threads_), 1, most),
          .threads = threads_};
}

bool KernelWriter::Overlaps() const {
  for (const Parameter& a : parameters_) {
    if (!a.written) continue;
    const char* a_begin = static_cast<const char*>(a.data);
    for (const Parameter& b : parameters_) {
      const char* b_begin = static_cast<const char*>(b.data);
      if (&a != &b && !b.type.empty() && a_begin < b_begin + b.bytes &&
          b_begin < a_begin + a.bytes) {
        return true;
      }
    }
  }
  return false;
}

KernelSource KernelWriter::Source() const {
  KernelSource source{name_, ""};
  std::string& text = source.text;
  absl::StrAppend(&text, BasicText());
  if (reduce_) {
    absl::StrAppend(&text, ReduceText());
  } else if (combine_) {
    absl::StrAppend(&text, CombineText());
  }
  if (random_) absl::StrAppend(&text, RandomText());
  absl::StrAppend(&text, "\n", rows_.text(), defined_);
  absl::StrAppend(&text, "typedef ", wide_ ? "i64" : "int", " Index;\n");
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(",
                  threads_, ")\n", name_, "(");
  // __restrict__ allows the compiler to reorder reads.
  const bool overlaps = Overlaps();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    absl::StrAppend(&text, i > 0 ? ",\n    " : "");
    if (parameter.type.empty()) {
      absl::StrAppend(&text, "i64 ", parameter.name);
    } else {
      absl::StrAppend(&text, parameter.written ? "" : "const ", parameter.type,
                      overlaps ? "* " : "* __restrict__ ", parameter.name);
    }
  }
  absl::StrAppend(&text, ") {\n", body_, "}\n");
  return source;
}

absl::StatusOr<Launch> KernelWriter::Compile(Runtime& runtime,
                                             const LaunchShape& shape) const {
  Launch launch;
  MTF_ASSIGN_OR_RETURN(launch.function, runtime.Compile(Source()));
  launch.shape = shape;
  for (const Parameter& parameter : parameters_) {
    launch.arguments.push_back(parameter.argument);
  }
  return launch;
}

}  // namespace mtf::cuda
