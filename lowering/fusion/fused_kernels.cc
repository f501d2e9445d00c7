// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/fused_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

// As much as the threads of a block hold between them: longer rows than any
// layer norm or softmax has.
constexpr int64_t kMostReduced = 1 << 16;

// The depth of what depends on nothing, such as random numbers: they are made
// by the kernel that reads them first, wherever that is.
constexpr int kAnywhere = -1;

class Finder {
 public:
  Finder(const Program& program, const std::vector<bool>& taken)
      : program_(program),
        taken_(taken),
        kernel_(program.instructions.size(), -1),
        maker_(program.values.size(), -1),
        viewed_(program.values.size()),
        inside_(program.values.size(), 0) {
    std::iota(viewed_.begin(), viewed_.end(), 0);
  }

  FusedKernels Run() {
    FindViews();
    JoinElementwise();
    JoinEpilogues();
    FindInside();
    return {kernel_, CountBytes()};
  }

 private:
  size_t count() const { return program_.instructions.size(); }
  const Instruction& instruction(size_t i) const {
    return program_.instructions[i];
  }
  bool IsTaken(size_t i) const { return !taken_.empty() && taken_[i]; }
  bool Fuses(size_t i) const {
    return IsLoopFusible(instruction(i).opcode) && !IsTaken(i);
  }

  // Who makes each value, and whose memory a renamed one is.
  void FindViews() {
    is_view_.resize(count());
    for (size_t i = 0; i < count(); ++i) {
      is_view_[i] = IsFreeReshape(program_, instruction(i));
      for (int result : instruction(i).results) {
        if (is_view_[i]) {
          viewed_[result] = viewed_[instruction(i).operands[0]];
        } else {
          maker_[result] = static_cast<int>(i);
        }
      }
    }
  }
  int MakerOf(int value) const { return maker_[viewed_[value]]; }

  void JoinElementwise() {
    // Per instruction, how many that are not elementwise lie before it on the
    // longest way. Along a way through one of them the number grows, so
    // instructions of one number never wait for each other through another
    // kernel.
    std::vector<int> depth(count(), kAnywhere);
    std::vector<size_t> parent(count());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    for (size_t i = 0; i < count(); ++i) {
      if (is_view_[i]) continue;
      for (int operand : instruction(i).operands) {
        const int from = MakerOf(operand);
        if (from < 0) continue;
        const Instruction& maker = instruction(from);
        const bool passes = maker.opcode == Opcode::kInput ||
                            maker.opcode == Opcode::kReadVariable ||
                            (Fuses(from) && !IsLongReduce(program_, maker));
        depth[i] = std::max(
            depth[i], passes ? depth[from] : std::max(depth[from], 0) + 1);
      }
      if (!Fuses(i)) {
        depth[i] = std::max(depth[i], 0);
        continue;
      }
      for (int operand : instruction(i).operands) {
        const int from = MakerOf(operand);
        if (from < 0 || !Fuses(from)) continue;
        const size_t other = root(from);
        if (depth[other] == kAnywhere) depth[other] = depth[i];
        if (depth[other] == depth[i]) parent[other] = root(i);
      }
    }
    // Kernels are called by their first instruction.
    std::vector<int> first(count(), -1);
    for (size_t i = 0; i < count(); ++i) {
      if (IsTaken(i)) continue;
      if (instruction(i).opcode == Opcode::kEinsum) {
        kernel_[i] = static_cast<int>(i);
      } else if (Fuses(i)) {
        int& name = first[root(i)];
        if (name < 0) name = static_cast<int>(i);
        kernel_[i] = name;
      }
    }
  }

  // A kernel of maps over one einsum's result becomes part of the einsum.
  void JoinEpilogues() {
    struct Kernel {
      int einsum = -1;
      bool fits = true;
      int latest = -1;  // the last instruction that makes an operand of it
    };
    std::vector<Kernel> kernels(count());
    std::vector<int> reader(program_.values.size(), -1);  // a kernel; -2: many
    for (size_t i = 0; i < count(); ++i) {
      if (is_view_[i]) continue;
      for (int operand : instruction(i).operands) {
        int& kernel = reader[viewed_[operand]];
        const int mine = kernel_[i] < 0 ? -2 : kernel_[i];
        kernel = kernel == -1 || kernel == mine ? mine : -2;
      }
    }
    for (size_t i = 0; i < count(); ++i) {
      if (!Fuses(i)) continue;
      Kernel& kernel = kernels[kernel_[i]];
      if (instruction(i).opcode != Opcode::kMap &&
          instruction(i).opcode != Opcode::kRandom) {
        kernel.fits = false;
      }
      for (int operand : instruction(i).operands) {
        const int from = MakerOf(operand);
        if (from < 0 || kernel_[from] == kernel_[i]) continue;
        const Opcode opcode = instruction(from).opcode;
        if (opcode == Opcode::kInput || opcode == Opcode::kReadVariable) {
          continue;
        }
        if (opcode == Opcode::kEinsum && !IsTaken(from) &&
            kernel.einsum != from && reader[viewed_[operand]] == kernel_[i]) {
          kernel.fits = kernel.fits && kernel.einsum < 0;
          kernel.einsum = from;
        } else if (kernel.einsum != from) {
          kernel.latest = std::max(kernel.latest, from);
        }
      }
    }
    std::vector<char> joins(count(), 0);
    for (size_t i = 0; i < count(); ++i) {
      const Kernel& kernel = kernels[i];
      joins[i] =
          kernel.fits && kernel.einsum >= 0 && kernel.latest < kernel.einsum;
    }
    // Place by place of the product: no map may be larger.
    for (size_t i = 0; i < count(); ++i) {
      if (!Fuses(i) || !joins[kernel_[i]]) continue;
      const int product = instruction(kernels[kernel_[i]].einsum).results[0];
      joins[kernel_[i]] =
          program_.values[instruction(i).results[0]].local_elements() ==
          program_.values[product].local_elements();
    }
    for (size_t i = 0; i < count(); ++i) {
      if (Fuses(i) && joins[kernel_[i]]) {
        kernel_[i] = kernels[kernel_[i]].einsum;
      }
    }
  }

  // Values that one kernel makes and that nobody else reads.
  void FindInside() {
    for (size_t i = 0; i < count(); ++i) {
      if (is_view_[i]) continue;
      for (int operand : instruction(i).operands) {
        const int from = MakerOf(operand);
        if (from < 0 || kernel_[from] != kernel_[i]) {
          inside_[viewed_[operand]] = 0;
        }
      }
      for (int result : instruction(i).results) {
        inside_[result] = kernel_[i] >= 0;
      }
    }
  }

  // Each kernel reads what it needs once and writes what others need.
  std::vector<int64_t> CountBytes() const {
    std::vector<int64_t> bytes(count(), 0);
    std::vector<int> last_reader(program_.values.size(), -1);
    for (size_t i = 0; i < count(); ++i) {
      const int kernel = kernel_[i];
      if (kernel < 0) continue;
      // The bytes of an epilogue move while the product runs.
      const bool in_einsum = instruction(kernel).opcode == Opcode::kEinsum;
      int64_t& account = bytes[in_einsum ? kernel : i];
      for (int operand : instruction(i).operands) {
        const int value = viewed_[operand];
        if (inside_[value] || last_reader[value] == kernel) continue;
        last_reader[value] = kernel;
        account += program_.values[value].local_bytes();
      }
      for (int result : instruction(i).results) {
        if (!inside_[result]) account += program_.values[result].local_bytes();
        last_reader[result] = kernel;
      }
    }
    return bytes;
  }

  const Program& program_;
  const std::vector<bool>& taken_;
  std::vector<int> kernel_;  // by instruction
  std::vector<char> is_view_;
  std::vector<int> maker_;    // by value; of views, see viewed_
  std::vector<int> viewed_;   // by value: whose memory it is
  std::vector<char> inside_;  // by value
};

}  // namespace

bool IsLongReduce(const Program& program, const Instruction& instruction) {
  const auto* reduce = instruction.Find<ReduceAttributes>();
  if (reduce == nullptr) return false;
  int64_t elements = 1;
  for (int64_t extent : reduce->iteration_local) elements *= extent;
  const int64_t results =
      program.values[instruction.results[0]].local_elements();
  return elements > kMostReduced * std::max<int64_t>(1, results);
}

FusedKernels FindFusedKernels(const Program& program,
                              const std::vector<bool>& taken) {
  return Finder(program, taken).Run();
}

}  // namespace mtf
