// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/collective_kernel.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "layouts/reshard_path.h"
#include "mtf/check.h"

namespace mtf {
namespace {

// Row-major memory relative to one dimension: `outer` rows of `extent` elements
// of `inner` bytes.
struct Rows {
  int64_t outer = 1, extent = 1, inner = 1;
};

Rows RowsOf(const ProgramValue& value, int dim) {
  Rows rows;
  rows.inner = DTypeSize(value.dtype);
  for (int i = 0; i < value.shape.rank(); ++i) {
    if (i < dim) rows.outer *= value.local[i];
    if (i > dim) rows.inner *= value.local[i];
  }
  rows.extent = value.local[dim];
  return rows;
}

// Copies [outer][block][..] in the value to [block][outer][..] in staging, with
// blocks along the dimension of `rows`.
BlockCopy Packing(const Rows& rows, int64_t blocks) {
  const int64_t inner = rows.extent / blocks * rows.inner;
  BlockCopy copy;
  copy.outer = rows.outer;
  copy.blocks = blocks;
  copy.inner = inner;
  copy.from_outer = blocks * inner;
  copy.from_block = inner;
  copy.to_outer = inner;
  copy.to_block = rows.outer * inner;
  return copy;
}

BlockCopy Unpacking(const Rows& rows, int64_t blocks) {
  BlockCopy copy = Packing(rows, blocks);
  std::swap(copy.from_outer, copy.to_outer);
  std::swap(copy.from_block, copy.to_block);
  return copy;
}

class BoundCollective : public CollectiveKernel {
 public:
  BoundCollective(const Binding& binding, Communicator& communicator,
                  const Communicator::Group& group)
      : instruction_(binding.instruction()),
        communicator_(communicator),
        group_(group),
        dtype_(binding.operands[0].dtype()),
        in_(binding.operands[0].data),
        out_(binding.results[0].data),
        in_bytes_(binding.operands[0].value->local_bytes()),
        out_bytes_(binding.results[0].value->local_bytes()) {
    for (size_t i = 0; i < binding.operands.size(); ++i) {
      buffers_.push_back({binding.operands[i].data, binding.results[i].data,
                          binding.operands[i].elements()});
    }
  }

  // Packs the operand into `staging` by `copy` and sends from there.
  void PackInto(void* staging, Device& device, const BlockCopy& copy) {
    packs_.push_back(device.PrepareCopy(staging, in_, copy));
    in_ = staging;
  }
  // Concatenates the blocks of several operands for each of `ranks` ranks in
  // `before`, and splits the blocks of this rank from `after` into the results.
  void JoinOperands(const Binding& binding, Device& device,
                    const std::vector<Rows>& rows, int64_t ranks, void* before,
                    void* after) {
    int64_t block = 0;  // bytes for one rank
    for (const BoundValue& result : binding.results) {
      block += result.value->local_bytes();
    }
    int64_t offset = 0;
    for (size_t i = 0; i < binding.operands.size(); ++i) {
      BlockCopy copy = Packing(rows[i], ranks);
      copy.to_block = block;
      packs_.push_back(device.PrepareCopy(static_cast<char*>(before) + offset,
                                          binding.operands[i].data, copy));
      const int64_t bytes = binding.results[i].value->local_bytes();
      BlockCopy split;
      split.inner = bytes;
      unpacks_.push_back(device.PrepareCopy(
          binding.results[i].data, static_cast<char*>(after) + offset, split));
      offset += bytes;
    }
    in_ = before;
    out_ = after;
    out_bytes_ = block;
  }
  // Receives into `staging` and unpacks into the result by `copy`.
  void UnpackFrom(void* staging, Device& device, const BlockCopy& copy) {
    unpacks_.push_back(device.PrepareCopy(out_, staging, copy));
    out_ = staging;
  }
  void SetPermutation(int64_t source, int64_t destination) {
    source_ = source;
    destination_ = destination;
  }

  // Called last, after the staging buffers have been set.
  absl::Status PrepareMove() {
    int64_t count = MoveCount();
    if (instruction_.opcode == Opcode::kAllReduce) {
      for (const Communicator::ReduceBuffer& buffer : buffers_) {
        count = std::max(count, buffer.count);
      }
    }
    return communicator_.PrepareCollective(
        CollectiveOf(instruction_.opcode), group_, count, dtype_,
        instruction_.Get<CollectiveAttributes>().reduction);
  }

  absl::Status Run() override {
    StepContext none;
    for (const std::unique_ptr<Kernel>& pack : packs_) pack->Run(none);
    MTF_RETURN_IF_ERROR(Move());
    for (const std::unique_ptr<Kernel>& unpack : unpacks_) unpack->Run(none);
    return absl::OkStatus();
  }

 private:
  // The elements or bytes passed to the communicator.
  int64_t MoveCount() const {
    switch (instruction_.opcode) {
      case Opcode::kAllGather:
      case Opcode::kCollectivePermute:
        return in_bytes_;
      case Opcode::kReduceScatter:
        return out_bytes_ / DTypeSize(dtype_);
      case Opcode::kAllToAll:
        return in_bytes_ / static_cast<int64_t>(group_.ranks.size());
      default:
        return 0;
    }
  }

  absl::Status Move() {
    switch (instruction_.opcode) {
      case Opcode::kAllReduce:
        return communicator_.AllReduce(
            group_, buffers_, dtype_,
            instruction_.Get<CollectiveAttributes>().reduction);
      case Opcode::kAllGather:
        return communicator_.AllGather(group_, in_, out_, MoveCount());
      case Opcode::kReduceScatter:
        return communicator_.ReduceScatter(
            group_, in_, out_, MoveCount(), dtype_,
            instruction_.Get<CollectiveAttributes>().reduction);
      case Opcode::kAllToAll:
        return communicator_.AllToAll(group_, in_, out_, MoveCount());
      case Opcode::kCollectivePermute:
        return communicator_.Permute(group_, in_, out_, MoveCount(), source_,
                                     destination_);
      default:
        return absl::InternalError("not a collective");
    }
  }

  const Instruction& instruction_;
  Communicator& communicator_;
  const Communicator::Group& group_;
  DType dtype_;
  const void* in_;
  void* out_;
  int64_t in_bytes_, out_bytes_;
  std::vector<Communicator::ReduceBuffer> buffers_;
  std::vector<std::unique_ptr<Kernel>> packs_, unpacks_;
  int64_t source_ = 0, destination_ = 0;
};

using Stripes = CollectiveAttributes::Stripes;

// As RowsOf, but each of the rows has `ranks` consecutive elements of the
// dimension: element r of each goes to rank r, or comes from it.
Rows StripedRowsOf(const ProgramValue& value, int dim, int64_t ranks) {
  Rows rows = RowsOf(value, dim);
  rows.outer *= rows.extent / ranks;
  rows.extent = ranks;
  return rows;
}

// The rows that are divided into one block per rank before they are sent, if
// the communicator needs them packed: not if there is one row.
std::optional<Rows> RowsToPack(const Program& program,
                               const Instruction& instruction) {
  const auto& collective = instruction.Get<CollectiveAttributes>();
  const ProgramValue& from = program.values[instruction.operands[0]];
  Rows rows;
  if (instruction.opcode == Opcode::kReduceScatter) {
    rows = RowsOf(from, collective.dim);
  } else if (instruction.opcode == Opcode::kAllToAll) {
    rows = collective.stripes == Stripes::kForm
               ? StripedRowsOf(from, collective.dim,
                               program.mesh.SizeOf(collective.axes))
               : RowsOf(from, collective.dim);
  }
  return rows.outer > 1 ? std::optional(rows) : std::nullopt;
}

// The rows into which the received blocks are concatenated, if that is not the
// order in which they are received.
std::optional<Rows> RowsToUnpack(const Program& program,
                                 const Instruction& instruction) {
  const auto& collective = instruction.Get<CollectiveAttributes>();
  const ProgramValue& to = program.values[instruction.results[0]];
  Rows rows;
  if (instruction.opcode == Opcode::kAllGather) {
    rows = RowsOf(to, collective.dim);
  } else if (instruction.opcode == Opcode::kAllToAll) {
    switch (collective.stripes) {
      case Stripes::kNone:
        rows = RowsOf(to, collective.from_dim);
        break;
      case Stripes::kForm:
        rows = RowsOf(to, collective.dim);
        break;
      case Stripes::kDissolve:
        rows = StripedRowsOf(to, collective.dim,
                             program.mesh.SizeOf(collective.axes));
        break;
    }
  }
  return rows.outer > 1 ? std::optional(rows) : std::nullopt;
}

// Whether other groups compute the same result as this reduction. Those results
// are replicas, which must be bitwise equal.
bool IsReplicatedOutside(const Program& program,
                         const Instruction& instruction) {
  if (!ReducesAxes(instruction.opcode)) return false;
  const AxisList& axes = instruction.Get<CollectiveAttributes>().axes;
  for (int result : instruction.results) {
    const TensorLayout& layout = program.values[result].layout;
    for (int axis = 0; axis < program.mesh.num_axes(); ++axis) {
      const AxisSet bit = AxisSet{1} << axis;
      if (program.mesh.axis_size(axis) > 1 && !axes.Contains(axis) &&
          ((layout.Sharded() | layout.unreduced) & bit) == 0) {
        return true;
      }
    }
  }
  return false;
}

absl::StatusOr<const Communicator::Group*> GroupOf(
    const Program& program, const Instruction& instruction,
    Communicator& communicator) {
  const auto& collective = instruction.Get<CollectiveAttributes>();
  return communicator.GroupOver(collective.axes,
                                IsReplicatedOutside(program, instruction),
                                collective.asynchronous);
}

}  // namespace

StagingBytes StagingBytesOf(const Program& program,
                            const Instruction& instruction) {
  StagingBytes bytes;
  if (!IsCollective(instruction.opcode)) return bytes;
  if (instruction.operands.size() > 1 &&
      instruction.opcode == Opcode::kReduceScatter) {
    for (int operand : instruction.operands) {
      bytes.before += program.values[operand].local_bytes();
    }
    for (int result : instruction.results) {
      bytes.after += program.values[result].local_bytes();
    }
    return bytes;
  }
  if (RowsToPack(program, instruction).has_value()) {
    bytes.before = program.values[instruction.operands[0]].local_bytes();
  }
  if (RowsToUnpack(program, instruction).has_value()) {
    bytes.after = program.values[instruction.results[0]].local_bytes();
  }
  return bytes;
}

absl::Status OpenGroups(const Program& program, Communicator& communicator) {
  for (const Instruction& instruction : program.instructions) {
    if (!Communicates(instruction.opcode)) continue;
    MTF_RETURN_IF_ERROR(GroupOf(program, instruction, communicator).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CollectiveKernel>> PrepareCollectiveKernel(
    const Binding& binding, Device& device, Communicator& communicator,
    void* before, void* after) {
  const Instruction& instruction = binding.instruction();
  const ProgramValue& from = *binding.operands[0].value;
  const ProgramValue& to = *binding.results[0].value;
  MTF_ASSIGN_OR_RETURN(const Communicator::Group* group,
                       GroupOf(*binding.program, instruction, communicator));
  const auto ranks = static_cast<int64_t>(group->ranks.size());
  auto kernel =
      std::make_unique<BoundCollective>(binding, communicator, *group);
  if (instruction.operands.size() > 1 &&
      instruction.opcode == Opcode::kReduceScatter) {
    std::vector<Rows> rows;
    for (size_t i = 0; i < binding.operands.size(); ++i) {
      rows.push_back(RowsOf(
          *binding.operands[i].value,
          binding.program->ScatteredDim(instruction, static_cast<int>(i))));
    }
    kernel->JoinOperands(binding, device, rows, ranks, before, after);
  } else if (const auto rows = RowsToPack(*binding.program, instruction)) {
    kernel->PackInto(before, device, Packing(*rows, ranks));
  }
  if (const auto rows = RowsToUnpack(*binding.program, instruction)) {
    kernel->UnpackFrom(after, device, Unpacking(*rows, ranks));
  }
  if (instruction.opcode == Opcode::kCollectivePermute) {
    const int64_t rank = communicator.rank();
    const auto& permute = instruction.Get<CollectiveAttributes>();
    const auto source_of = [&](int64_t other) {
      if (!permute.ReordersShards()) {
        return PermuteSource(communicator.mesh(), from.layout, to.layout,
                             other);
      }
      const auto at =
          std::find(group->ranks.begin(), group->ranks.end(), other) -
          group->ranks.begin();
      return group
          ->ranks[permute.sources.empty() ? (at + ranks - permute.shift) % ranks
                                          : permute.sources[at]];
    };
    int64_t destination = -1;
    for (int64_t other : group->ranks) {
      if (source_of(other) == rank) destination = other;
    }
    MTF_CHECK(destination >= 0)
        << "no rank receives the shard of rank " << rank;
    kernel->SetPermutation(source_of(rank), destination);
  }
  MTF_RETURN_IF_ERROR(kernel->PrepareMove());
  return std::unique_ptr<CollectiveKernel>(std::move(kernel));
}

}  // namespace mtf
