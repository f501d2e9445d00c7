// SPDX-License-Identifier: Apache-2.0
//
// One instruction over dense unsharded values, prepared on a device.
#ifndef TOOLS_ONE_INSTRUCTION_H_
#define TOOLS_ONE_INSTRUCTION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "lowering/program/program.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"

namespace mtf {

class OneInstruction {
 public:
  explicit OneInstruction(int num_threads)
      : OneInstruction(*CreateDevice("cpu", {.num_threads = num_threads})) {}
  explicit OneInstruction(std::unique_ptr<Device> device)
      : device_(std::move(device)) {
    device_->EnterThread();
  }
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

  // Prepares the kernel; buffers do not move afterwards. Fails a check if the
  // device cannot do it.
  void Prepare() {
    const absl::Status status = TryPrepare();
    MTF_CHECK(status.ok()) << status.ToString();
  }
  // Prepares the kernel, or returns the error of a device that cannot do it.
  absl::Status TryPrepare() {
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
      instruction.Get<EinsumAttributes>().plan =
          std::make_shared<const EinsumPlan>(
              PlanEinsum(strided(instruction.operands[0]),
                         strided(instruction.operands[1]),
                         strided(instruction.results[0])));
    }
    program_.instructions.push_back(instruction);
    Binding binding;
    binding.program = &program_;
    for (int operand : instruction.operands) {
      binding.operands.push_back(Bind(operand));
    }
    binding.results.push_back(Bind(instruction.results[0]));
    if (const auto* reduce = instruction.Find<ReduceAttributes>()) {
      for (const Dimension& dim : reduce->iteration) {
        binding.iteration.push_back({dim.size, 0, dim.size});
      }
    }
    MTF_ASSIGN_OR_RETURN(kernel_, device_->Prepare(binding));
    return device_->BeginStep(context_);
  }

  void Run() { kernel_->Run(context_); }
  // Waits for work that the device has enqueued.
  absl::Status Finish() { return device_->Finish(context_); }

 private:
  int Add(const Shape& shape, DType dtype) {
    const int id = program_.AddValue("v", dtype, shape,
                                     TensorLayout::Replicated(shape.rank()));
    for (const Dimension& dim : shape) {
      program_.values[id].local.push_back(dim.size);
    }
    const int64_t elements = shape.num_elements();
    const int64_t size = DTypeSize(dtype);
    auto memory = device_->Allocate(elements * size);
    MTF_CHECK(memory.ok()) << memory.status().ToString();
    memory_.push_back(*memory);
    // Random numbers, because hardware is faster on zeros. One block of them is
    // drawn and copied repeatedly, which matters for a billion elements.
    constexpr int64_t kBlock = 1 << 22;
    std::vector<char> numbers(std::min(elements, kBlock) * size);
    std::minstd_rand random(static_cast<uint32_t>(id) + 1);
    for (int64_t i = 0; i < std::min(elements, kBlock); ++i) {
      const double number = static_cast<double>(random() % 4096) / 2048 - 1;
      StoreElement(numbers.data(), dtype, i,
                   IsFloat(dtype) ? number : 8 * number);
    }
    for (int64_t start = 0; start < elements; start += kBlock) {
      const absl::Status copied = device_->CopyToDevice(
          static_cast<char*>(memory_.back()) + start * size, numbers.data(),
          std::min(elements - start, kBlock) * size);
      MTF_CHECK(copied.ok()) << copied.ToString();
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

#endif  // TOOLS_ONE_INSTRUCTION_H_
