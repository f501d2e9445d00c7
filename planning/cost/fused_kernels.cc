// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/fused_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "lowering/fusion/long_reduce.h"
#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

// The depth of an instruction without dependencies, such as random numbers: the
// first kernel that reads it computes it.
constexpr int kNoDepth = -1;

class FusedKernelFinder {
 public:
  explicit FusedKernelFinder(const Program& program)
      : program_(program),
        kernel_(program.instructions.size(), -1),
        in_convolution_(program.instructions.size(), 0),
        producer_(program.values.size(), -1),
        storage_(program.values.size()),
        is_internal_(program.values.size(), 0) {
    std::iota(storage_.begin(), storage_.end(), 0);
    for (const FusedGroup& group : program.groups) {
      if (group.Find<ConvolutionGroup>() == nullptr) continue;
      for (int member : group.members) in_convolution_[member] = 1;
    }
  }

  FusedKernels Run() {
    FindViews();
    JoinElementwise();
    JoinEpilogues();
    FindInternalValues();
    return {kernel_, CountBytes()};
  }

 private:
  size_t count() const { return program_.instructions.size(); }
  const Instruction& instruction(size_t i) const {
    return program_.instructions[i];
  }
  bool CanFuse(size_t i) const {
    return in_convolution_[i] == 0 && IsLoopFusible(instruction(i).opcode);
  }
  // A convolution has no epilogue.
  bool IsEinsum(size_t i) const {
    return in_convolution_[i] == 0 && instruction(i).opcode == Opcode::kEinsum;
  }

  // Finds the producer of each value and, for views, the value whose memory
  // they share.
  void FindViews() {
    is_view_.resize(count());
    for (size_t i = 0; i < count(); ++i) {
      is_view_[i] = IsFreeReshape(program_, instruction(i));
      for (int result : instruction(i).results) {
        if (is_view_[i]) {
          storage_[result] = storage_[instruction(i).operands[0]];
        } else {
          producer_[result] = static_cast<int>(i);
        }
      }
    }
  }
  int ProducerOf(int value) const { return producer_[storage_[value]]; }

  // Joins connected elementwise instructions of equal depth (union-find).
  void JoinElementwise() {
    // By instruction: the number of instructions on the longest path of
    // dependencies before it that are not elementwise. The number grows along
    // any path through such an instruction, so instructions of equal depth
    // never wait for each other through another kernel.
    std::vector<int> depth(count(), kNoDepth);
    std::vector<size_t> parent(count());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    for (size_t i = 0; i < count(); ++i) {
      if (is_view_[i]) continue;
      for (int operand : instruction(i).operands) {
        const int from = ProducerOf(operand);
        if (from < 0) continue;
        const Instruction& producer = instruction(from);
        const bool same_depth =
            ExistsBeforeStep(producer.opcode) ||
            (CanFuse(from) && !IsLongReduce(program_, producer));
        depth[i] = std::max(
            depth[i], same_depth ? depth[from] : std::max(depth[from], 0) + 1);
      }
      if (!CanFuse(i)) {
        depth[i] = std::max(depth[i], 0);
        continue;
      }
      for (int operand : instruction(i).operands) {
        const int from = ProducerOf(operand);
        if (from < 0 || !CanFuse(from)) continue;
        const size_t other = root(from);
        if (depth[other] == kNoDepth) depth[other] = depth[i];
        if (depth[other] == depth[i]) parent[other] = root(i);
      }
    }
    // A kernel is identified by its first instruction.
    std::vector<int> first(count(), -1);
    for (size_t i = 0; i < count(); ++i) {
      if (IsEinsum(i)) {
        kernel_[i] = static_cast<int>(i);
      } else if (CanFuse(i)) {
        int& kernel = first[root(i)];
        if (kernel < 0) kernel = static_cast<int>(i);
        kernel_[i] = kernel;
      }
    }
  }

  // Merges a kernel of maps over the result of one einsum into the einsum.
  void JoinEpilogues() {
    struct Kernel {
      int einsum = -1;
      bool is_candidate = true;
      int latest = -1;  // the last producer of any other operand
    };
    std::vector<Kernel> kernels(count());
    std::vector<int> reader(program_.values.size(),
                            -1);  // by value: a kernel; -2: several
    for (size_t i = 0; i < count(); ++i) {
      if (is_view_[i]) continue;
      for (int operand : instruction(i).operands) {
        int& kernel = reader[storage_[operand]];
        const int kernel_here = kernel_[i] < 0 ? -2 : kernel_[i];
        kernel = kernel == -1 || kernel == kernel_here ? kernel_here : -2;
      }
    }
    for (size_t i = 0; i < count(); ++i) {
      if (!CanFuse(i)) continue;
      Kernel& kernel = kernels[kernel_[i]];
      if (instruction(i).opcode != Opcode::kMap &&
          instruction(i).opcode != Opcode::kRandom) {
        kernel.is_candidate = false;
      }
      for (int operand : instruction(i).operands) {
        const int from = ProducerOf(operand);
        if (from < 0 || kernel_[from] == kernel_[i]) continue;
        const Opcode opcode = instruction(from).opcode;
        if (ExistsBeforeStep(opcode)) continue;
        if (IsEinsum(from) && kernel.einsum != from &&
            reader[storage_[operand]] == kernel_[i]) {
          kernel.is_candidate = kernel.is_candidate && kernel.einsum < 0;
          kernel.einsum = from;
        } else if (kernel.einsum != from) {
          kernel.latest = std::max(kernel.latest, from);
        }
      }
    }
    std::vector<char> is_epilogue(count(), 0);
    for (size_t i = 0; i < count(); ++i) {
      const Kernel& kernel = kernels[i];
      is_epilogue[i] = kernel.is_candidate && kernel.einsum >= 0 &&
                       kernel.latest < kernel.einsum;
    }
    // An epilogue works on the elements of the product: no map may be larger.
    for (size_t i = 0; i < count(); ++i) {
      if (!CanFuse(i) || !is_epilogue[kernel_[i]]) continue;
      const int product = instruction(kernels[kernel_[i]].einsum).results[0];
      is_epilogue[kernel_[i]] =
          program_.values[instruction(i).results[0]].local_elements() ==
          program_.values[product].local_elements();
    }
    for (size_t i = 0; i < count(); ++i) {
      if (CanFuse(i) && is_epilogue[kernel_[i]]) {
        kernel_[i] = kernels[kernel_[i]].einsum;
      }
    }
  }

  // Finds the values that are produced and read by one kernel only.
  void FindInternalValues() {
    for (size_t i = 0; i < count(); ++i) {
      if (is_view_[i]) continue;
      for (int operand : instruction(i).operands) {
        const int from = ProducerOf(operand);
        if (from < 0 || kernel_[from] != kernel_[i]) {
          is_internal_[storage_[operand]] = 0;
        }
      }
      for (int result : instruction(i).results) {
        is_internal_[result] = kernel_[i] >= 0;
      }
    }
  }

  // Counts the traffic: each kernel reads an input once and writes the values
  // that others read.
  std::vector<int64_t> CountBytes() const {
    std::vector<int64_t> bytes(count(), 0);
    std::vector<int> last_reader(program_.values.size(), -1);
    for (size_t i = 0; i < count(); ++i) {
      const int kernel = kernel_[i];
      if (kernel < 0) continue;
      // The traffic of an epilogue overlaps with the product.
      const bool in_einsum = instruction(kernel).opcode == Opcode::kEinsum;
      int64_t& traffic = bytes[in_einsum ? kernel : i];
      for (int operand : instruction(i).operands) {
        const int value = storage_[operand];
        if (is_internal_[value] || last_reader[value] == kernel) continue;
        last_reader[value] = kernel;
        traffic += program_.values[value].local_bytes();
      }
      for (int result : instruction(i).results) {
        if (!is_internal_[result])
          traffic += program_.values[result].local_bytes();
        last_reader[result] = kernel;
      }
    }
    return bytes;
  }

  const Program& program_;
  std::vector<int> kernel_;           // by instruction
  std::vector<char> in_convolution_;  // by instruction
  std::vector<char> is_view_;
  std::vector<int> producer_;      // by value, except views
  std::vector<int> storage_;       // by value: the value whose memory it shares
  std::vector<char> is_internal_;  // by value
};

}  // namespace

FusedKernels FindFusedKernels(const Program& program) {
  return FusedKernelFinder(program).Run();
}

}  // namespace mtf
