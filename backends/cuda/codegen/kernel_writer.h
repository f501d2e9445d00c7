// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_CODEGEN_KERNEL_WRITER_H_
#define BACKENDS_CUDA_CODEGEN_KERNEL_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/runtime.h"
#include "mtf/dtype.h"

namespace mtf::cuda {

// A compiled kernel with its arguments: addresses and 64-bit numbers.
struct Launch {
  Function* function = nullptr;
  LaunchShape shape;
  std::vector<uint64_t> arguments;

  void Enqueue(Runtime& runtime) const;
};

// Enqueues launches one after the other.
class LaunchSequence : public Kernel {
 public:
  LaunchSequence(Runtime& runtime, std::vector<Launch> launches)
      : runtime_(runtime), launches_(std::move(launches)) {}
  void Run(StepContext&) override {
    for (const Launch& launch : launches_) launch.Enqueue(runtime_);
  }

 private:
  Runtime& runtime_;
  std::vector<Launch> launches_;
};

// Writes the text of one kernel and collects its parameters with their
// arguments.
//
//   KernelWriter writer("double_it");
//   const std::string x = writer.Read(from, kFloat32, n);     // "x0"
//   const std::string y = writer.Write(to, kBFloat16, n);     // "y0"
//   writer.SetIndexReach(n);
//   writer.Add(writer.GridLoop("i", n));                      // for (...) {
//   writer.Add("    Put(", y, "[i], Value(", x, "[i]) * 2.0);\n  }\n");
//   MTF_ASSIGN_OR_RETURN(Launch launch, writer.Compile(runtime, blocks));
//
// The text does not depend on buffer addresses, so equal kernels are compiled
// once. Values that differ between ranks are parameters added by Number. A
// shard at offset 0 omits its offset, so a text has at most two variants: one
// for these shards and one for all others.
class KernelWriter {
 public:
  explicit KernelWriter(std::string name, int threads = 256)
      : name_(std::move(name)), threads_(threads) {}

  int threads() const { return threads_; }

  // The name of the parameter for `data`, which has `elements`; added if new.
  std::string Read(const void* data, DType dtype, int64_t elements);
  std::string Write(void* data, DType dtype, int64_t elements);
  // The same for memory of another C type, such as "double".
  std::string ReadAs(const void* data, absl::string_view type, int64_t bytes);
  std::string WriteAs(void* data, absl::string_view type, int64_t bytes);
  // Adds a parameter of type i64; returns its name.
  std::string Number(int64_t value);

  // Makes `Index` an int if every index and offset is below `reach`, with room
  // for one more step of a loop over the grid; otherwise it is 64 bits wide.
  void SetIndexReach(int64_t reach);

  template <class... Text>
  void Add(const Text&... text) {
    absl::StrAppend(&body_, text...);
  }
  // "  for (Index i = ...; i < count; i += ...) {\n" over all threads of the
  // grid.
  std::string GridLoop(absl::string_view index, int64_t count) const;
  // Blocks for this many threads, limited to a few times of what the GPU runs
  // at once.
  LaunchShape ShapeFor(const GpuInfo& info, int64_t threads) const;

  RowText& rows() { return rows_; }
  void UseCombine() { combine_ = true; }
  void UseReduce() { reduce_ = true; }
  void UseRandom() { random_ = true; }
  // Adds definitions between the vocabulary and the kernel.
  void Define(absl::string_view text) { absl::StrAppend(&defined_, text); }

  KernelSource Source() const;
  absl::StatusOr<Launch> Compile(Runtime& runtime,
                                 const LaunchShape& shape) const;

 private:
  struct Parameter {
    std::string type;  // of an element; "" for a number
    std::string name;
    const void* data = nullptr;
    int64_t bytes = 0;
    bool written = false;
    uint64_t argument = 0;
  };
  std::string AddMemory(const void* data, absl::string_view type, int64_t bytes,
                        bool written);
  // Whether memory that is written is also accessed through another parameter.
  bool Overlaps() const;

  std::string name_;
  int threads_;
  bool wide_ = false, combine_ = false, reduce_ = false, random_ = false;
  int reads_ = 0, writes_ = 0, numbers_ = 0;
  std::vector<Parameter> parameters_;
  RowText rows_;
  std::string defined_, body_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_KERNEL_WRITER_H_
