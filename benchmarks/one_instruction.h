// SPDX-License-Identifier: Apache-2.0
//
// One instruction over dense whole values, prepared on the CPU device.
#ifndef BENCHMARKS_ONE_INSTRUCTION_H_
#define BENCHMARKS_ONE_INSTRUCTION_H_

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "lowering/program.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf {

class OneInstruction {
 public:
  explicit OneInstruction(int num_threads)
      : device_(*CreateDevice("cpu", {.num_threads = num_threads})) {}
  ~OneInstruction() {
    for (void* data : memory_) device_->Free(data);
  }

  Instruction instruction;

  void AddOperand(const Shape& shape, DType dtype) {
    instruction.operands.push_back(Add(shape, dtype));
  }
  void SetResult(const Shape& shape, DType dtype) {
    instruction.results.push_back(Add(shape, dtype));
  }

  // Values stay in place from here on.
  void Prepare() {
    const auto strided = [&](int value) {
      std::vector<StridedDimension> dims;
      const BoundValue bound = Bind(value);
      for (int i = 0; i < bound.value->shape.rank(); ++i) {
        const Dimension& dim = bound.value->shape[i];
        dims.push_back({dim.name, dim.size, bound.stride(i)});
      }
      return dims;
    };
    if (instruction.opcode == Opcode::kEinsum) {
      instruction.einsum = PlanEinsum(strided(instruction.operands[0]),
                                      strided(instruction.operands[1]),
                                      strided(instruction.results[0]));
    }
    program_.instructions.push_back(instruction);
    Binding binding;
    binding.program = &program_;
    for (int operand : instruction.operands) {
      binding.operands.push_back(Bind(operand));
    }
    binding.results.push_back(Bind(instruction.results[0]));
    for (const Dimension& dim : instruction.iteration) {
      binding.iteration.push_back({dim.size, 0, dim.size});
    }
    auto kernel = device_->Prepare(binding);
    MTF_CHECK(kernel.ok()) << kernel.status().ToString();
    kernel_ = *std::move(kernel);
  }

  void Run() { kernel_->Run(context_); }
  void* data(int value) { return memory_[value]; }

 private:
  int Add(const Shape& shape, DType dtype) {
    const int id = program_.AddValue("v", dtype, shape,
                                     TensorLayout::Replicated(shape.rank()));
    for (const Dimension& dim : shape) {
      program_.values[id].local.push_back(dim.size);
    }
    const int64_t elements = shape.num_elements();
    memory_.push_back(*device_->Allocate(elements * DTypeSize(dtype)));
    // Random numbers: hardware is faster on zeros.
    std::minstd_rand random(static_cast<uint32_t>(id) + 1);
    for (int64_t i = 0; i < elements; ++i) {
      const double number = static_cast<double>(random() % 4096) / 2048 - 1;
      StoreElement(memory_.back(), dtype, i,
                   IsFloat(dtype) ? number : 8 * number);
    }
    return id;
  }

  BoundValue Bind(int id) {
    BoundValue bound{memory_[id], &program_.values[id], {}};
    for (const Dimension& dim : program_.values[id].shape) {
      bound.dims.push_back({dim.size, 0, dim.size});
    }
    return bound;
  }

  std::unique_ptr<Device> device_;
  Program program_;
  std::vector<void*> memory_;
  std::unique_ptr<Kernel> kernel_;
  StepContext context_;
};

}  // namespace mtf

#endif  // BENCHMARKS_ONE_INSTRUCTION_H_
