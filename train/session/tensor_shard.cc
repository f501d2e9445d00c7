// SPDX-License-Identifier: Apache-2.0
#include "train/session/tensor_shard.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

absl::Status WrongShard(const std::string& name, const TensorShard& needed) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the feed of ", Quoted(name), " has no shard of rank ", needed.rank,
      " that matches its layout",
      DetailLine("needs",
                 DescribeTensor(needed.values.dtype(), needed.values.shape())),
      DetailLine("help", "fill in what InputShards returns")));
}

}  // namespace

void CopyShard(const TensorShard& shard, HostTensor& global) {
  const std::vector<ShardedDimension>& dims = shard.dims;
  const int rank = global.shape().rank();
  const int64_t size = DTypeSize(global.dtype());
  const int64_t elements = shard.values.num_elements();
  // A run along the last dimension is contiguous in both tensors.
  const int64_t run = rank == 0 ? 1 : dims[rank - 1].valid;
  for (int64_t begin = 0; begin < elements; begin += run) {
    int64_t rest = begin, stride = 1, target = 0;
    for (int i = rank - 1; i >= 0; --i) {
      target += (rest % dims[i].valid + dims[i].offset) * stride;
      rest /= dims[i].valid;
      stride *= global.shape()[i].size;
    }
    std::memcpy(static_cast<char*>(global.data()) + target * size,
                static_cast<const char*>(shard.values.data()) + begin * size,
                run * size);
  }
}

TensorShard ZeroShard(const Program& program, const ProgramValue& value,
                      int64_t rank) {
  TensorShard shard;
  shard.rank = rank;
  // Unreduced values are reduced before they are fetched.
  shard.dims =
      ShardOf(program.grains, value.shape, value.layout.Reduced(), rank);
  std::vector<Dimension> valid;
  for (int i = 0; i < value.shape.rank(); ++i) {
    valid.push_back({value.shape[i].name, shard.dims[i].valid});
  }
  shard.values = HostTensor(Shape(std::move(valid)), value.dtype);
  return shard;
}

absl::StatusOr<const ProgramValue*> FindInput(const Program& program,
                                              absl::string_view name) {
  std::vector<std::string> names;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const std::string& input = instruction.Get<NameAttributes>().name;
    if (input == name) {
      return &program.values[instruction.results[0]];
    }
    names.push_back(input);
  }
  return NoSuchName("input of this request", name, names);
}

const ProgramValue& OutputValue(const Program& program,
                                absl::string_view name) {
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kOutput &&
        instruction.Get<NameAttributes>().name == name) {
      return program.values[instruction.operands[0]];
    }
  }
  MTF_CHECK(false) << "the program has no output " << name;
}

absl::Status AddFeedShards(
    const Program& program, int64_t rank,
    const std::map<std::string, std::vector<TensorShard>>& feed_shards,
    std::map<std::string, HostTensor>& feeds) {
  for (const auto& [name, shards] : feed_shards) {
    const absl::StatusOr<const ProgramValue*> found = FindInput(program, name);
    if (!found.ok()) continue;  // the program does not need it
    const ProgramValue* value = *found;
    const TensorShard needed = ZeroShard(program, *value, rank);
    const TensorShard* mine = nullptr;
    for (const TensorShard& shard : shards) {
      if (shard.rank == rank) mine = &shard;
    }
    if (mine == nullptr || mine->dims != needed.dims ||
        mine->values.dtype() != needed.values.dtype() ||
        mine->values.shape() != needed.values.shape()) {
      return WrongShard(name, needed);
    }
    const auto [feed, added] =
        feeds.emplace(name, HostTensor(value->shape, value->dtype));
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", Quoted(name), " is in both feeds and feed_shards"));
    }
    CopyShard(*mine, feed->second);
  }
  return absl::OkStatus();
}

absl::Status CheckValue(absl::string_view what, absl::string_view name,
                        const HostTensor& value) {
  const absl::Status& status = value.status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, " ", Quoted(name), ": ",
                                                  status.message()));
}

absl::Status NoSuchName(absl::string_view what, absl::string_view name,
                        const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(absl::StrCat(
      "no ", what, " is called ", Quoted(name),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("names", absl::StrJoin(names, ", "))));
}

}  // namespace mtf::train
