// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/block_program.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/cpu/block_memory.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf::cpu {
namespace {

using F = ScalarFunction;

constexpr int64_t kFloatBytes = BlockProgram::kBlock * sizeof(float);
constexpr int64_t kIntBytes = BlockProgram::kBlock * sizeof(int64_t);

// Links of a chain: the operands of more would not stay in the first-level
// cache.
constexpr size_t kMaxLinks = 8;

int64_t RoundUp(int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

// Whether a step returns its argument unchanged, so that both share a register:
// a cast to a dtype that represents every value of the argument's.
bool IsAlias(const MapStep& step, DType from) {
  if (step.function == F::kIdentity) return step.dtype == from;
  if (step.function != F::kCast) return false;
  return step.dtype == from || (step.dtype == kFloat32 && !IsInteger(from)) ||
         (step.dtype == kInt64 && from == kInt32);
}

// Rows of at most as many elements are read several at once.
constexpr int64_t kShortRow = 8;

void ReadRows(const float* from, int64_t rows, int64_t row_stride,
              int64_t columns, int64_t column_stride, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      *to++ = from[i * row_stride + j * column_stride];
    }
  }
}

}  // namespace

BlockProgram::BlockProgram(const MapExpression& expression,
                           absl::Span<const BoundValue> operands,
                           absl::Span<const SpaceDimension> space,
                           bool rounds_result)
    : expression_(expression), space_(space.begin(), space.end()) {
  for (const SpaceDimension& dim : space_) elements_ *= dim.extent;
  for (const BoundValue& operand : operands) {
    sources_.push_back(Locate(operand, space));
    dtypes_.push_back(operand.dtype());
  }
  for (const MapStep& step : expression_.steps) dtypes_.push_back(step.dtype);
  Resolve();
  FindChains();
  // A result that is an alias has been rounded to the narrower dtype before.
  rounds_result_ = rounds_result || dtypes_[root_.back()] != dtypes_.back();
  Allocate();
}

BlockProgram::Source BlockProgram::Locate(
    const BoundValue& operand, absl::Span<const SpaceDimension> space) const {
  Source source;
  source.data = operand.data;
  for (const SpaceDimension& dim : space) {
    if (dim.extent == 1) continue;
    const int i = operand.value->shape.Find(dim.name);
    const int64_t stride = i < 0 ? 0 : operand.stride(i);
    if (i >= 0) MTF_CHECK_EQ(operand.dims[i].extent, dim.extent) << dim.name;
    if (!source.loops.empty() &&
        source.loops.back().stride == stride * dim.extent) {
      source.loops.back().extent *= dim.extent;
      source.loops.back().stride = stride;
    } else {
      source.loops.push_back({dim.extent, stride});
    }
  }
  source.direct = operand.dtype() == kFloat32 && source.loops.size() == 1 &&
                  source.loops[0].stride == 1;
  if (source.loops.size() == 2 && source.loops[0].stride == 0 &&
      source.loops[1].extent > 0 && kBlock % source.loops[1].extent == 0) {
    source.period = source.loops[1].extent;
  }
  return source;
}

// Decides which values share a register, which are uniform, and the order in
// which a block computes the others.
void BlockProgram::Resolve() {
  const int num_values = static_cast<int>(dtypes_.size());
  registers_.resize(num_values);
  root_.resize(num_values);
  std::vector<bool> made(num_values, false);
  const auto make = [&](int value) {
    if (made[value]) return;
    made[value] = true;
    (registers_[value].uniform ? prologue_ : order_).push_back(value);
  };
  for (int value = 0; value < num_values; ++value) {
    root_[value] = value;
    Register& reg = registers_[value];
    reg.is_float = !IsInteger(dtypes_[value]);
    if (value < num_operands()) {
      const Source& source = sources_[value];
      reg.uniform = source.loops.empty() ||
                    (source.loops.size() == 1 && source.loops[0].stride == 0);
      continue;
    }
    const MapStep& step = StepOf(value);
    if (step.function != F::kLiteral && step.function != F::kIota) {
      const int argument = root_[step.arguments[0]];
      if (IsAlias(step, dtypes_[step.arguments[0]])) {
        root_[value] = argument;
        continue;
      }
    }
    reg.uniform = step.function != F::kIota;
    for (int argument : step.arguments) {
      reg.uniform = reg.uniform && registers_[root_[argument]].uniform;
    }
    // An operand is read just before its first use.
    for (int argument : step.arguments) make(root_[argument]);
    make(value);
  }
  make(root_[num_values - 1]);  // an expression may be its operand
}

// Finds sums, differences and products in f32 that only one other of these
// reads.
void BlockProgram::FindChains() {
  chains_.resize(dtypes_.size());
  std::vector<int> uses(dtypes_.size(), 0);
  ++uses[root_.back()];
  for (int value : order_) {
    if (value < num_operands()) continue;
    for (int argument : StepOf(value).arguments) ++uses[root_[argument]];
  }
  std::vector<bool> is_part(dtypes_.size(), false);
  for (int value : order_) {
    if (value < num_operands() || dtypes_[value] != kFloat32 ||
        !IsChainable(StepOf(value).function)) {
      continue;
    }
    const MapStep& step = StepOf(value);
    const int arguments[] = {root_[step.arguments[0]],
                             root_[step.arguments[1]]};
    Chain& chain = chains_[value];
    chain = {arguments[0], {{step.function, true, arguments[1]}}};
    for (int side : {0, 1}) {
      Chain& before = chains_[arguments[side]];
      if (before.links.empty() || uses[arguments[side]] != 1 ||
          before.links.size() == kMaxLinks) {
        continue;
      }
      before.links.push_back({step.function, side == 0, arguments[1 - side]});
      chain = std::move(before);
      before = {};
      is_part[arguments[side]] = true;
      break;
    }
  }
  order_.erase(std::remove_if(order_.begin(), order_.end(),
                              [&](int value) { return is_part[value]; }),
               order_.end());
  for (Chain& chain : chains_) {
    if (chain.links.size() < 2) chain = {};
  }
  prefetches_ = !std::all_of(order_.begin(), order_.end(), [&](int value) {
    return value < num_operands()
               ? sources_[value].direct || sources_[value].period > 0
               : !chains_[value].links.empty();
  });
}

std::vector<int> BlockProgram::ArgumentsOf(int value) const {
  std::vector<int> arguments;
  const Chain& chain = chains_[value];
  if (!chain.links.empty()) {
    arguments.push_back(chain.first);
    for (const Chain::Link& link : chain.links) arguments.push_back(link.other);
    return arguments;
  }
  for (int argument : StepOf(value).arguments) {
    arguments.push_back(root_[argument]);
  }
  return arguments;
}

// Assigns a register to every value. Registers are reused after the last use of
// their value, so that long fused expressions stay in the first-level cache.
void BlockProgram::Allocate() {
  const int num_values = static_cast<int>(dtypes_.size());
  const int result = root_[num_values - 1];
  std::vector<int> last_use(num_values, -1);
  for (int value : order_) {
    if (value < num_operands()) continue;
    for (int argument : ArgumentsOf(value)) last_use[argument] = value;
  }
  last_use[result] = num_values;
  // Keeps its register from block to block.
  const auto is_periodic = [&](int value) {
    return value < num_operands() && sources_[value].period > 0;
  };
  const auto add = [&](int64_t bytes) {
    memory_bytes_ += bytes;
    return memory_bytes_ - bytes;
  };
  for (int value : prologue_) {
    // The result of the expression is returned as a full block.
    const int64_t count = value == result ? kBlock : kLanes;
    registers_[value].offset = add(
        count * (registers_[value].is_float ? sizeof(float) : sizeof(int64_t)));
  }
  std::vector<int64_t> free_blocks[2];  // of ints, of floats
  for (int value : order_) {
    if (value >= num_operands()) {
      // A step may write to the register of an argument.
      std::vector<int> arguments;
      for (int root : ArgumentsOf(value)) {
        const bool seen = std::find(arguments.begin(), arguments.end(), root) !=
                          arguments.end();
        if (seen || registers_[root].uniform || last_use[root] != value ||
            is_periodic(root)) {
          continue;
        }
        arguments.push_back(root);
        free_blocks[registers_[root].is_float].push_back(
            registers_[root].offset);
      }
    }
    Register& reg = registers_[value];
    std::vector<int64_t>& blocks = free_blocks[reg.is_float];
    if (blocks.empty() || is_periodic(value)) {
      reg.offset = add(reg.is_float ? kFloatBytes : kIntBytes);
    } else {
      reg.offset = blocks.back();
      blocks.pop_back();
    }
  }
}

std::optional<std::array<int, 2>> BlockProgram::FactorsInPlace() const {
  if (expression_.steps.size() != 1 || dtype() != kFloat32) {
    return std::nullopt;
  }
  const MapStep& step = expression_.steps[0];
  if (step.function != F::kMultiply && step.function != F::kSquare) {
    return std::nullopt;
  }
  for (int argument : step.arguments) {
    if (!sources_[argument].direct) return std::nullopt;
  }
  return std::array<int, 2>{step.arguments[0], step.arguments.back()};
}

std::optional<std::array<int, 2>> BlockProgram::DifferenceFromRow(
    int64_t columns) const {
  if (expression_.steps.size() != 1 || dtype() != kFloat32 ||
      expression_.steps[0].function != F::kSubtract) {
    return std::nullopt;
  }
  const int x = expression_.steps[0].arguments[0];
  const int y = expression_.steps[0].arguments[1];
  const std::vector<Loop>& loops = sources_[y].loops;
  if (!sources_[x].direct || dtypes_[y] != kFloat32 || loops.size() != 2 ||
      loops[0].stride != 0 || loops[1].stride != 1 ||
      loops[1].extent != columns) {
    return std::nullopt;
  }
  return std::array<int, 2>{x, y};
}

void BlockProgram::AddTo(BlockPrefetch& prefetch, int64_t blocks) const {
  for (int i = 0; i < num_operands(); ++i) {
    const std::vector<Loop>& loops = sources_[i].loops;
    if (loops.size() != 1 || loops[0].stride != 1) continue;
    if (sources_[i].data == nullptr) continue;
    prefetch.AddTensor(sources_[i].data, DTypeSize(dtypes_[i]));
  }
  prefetch.AddSteps(blocks * prefetch_steps());
}

void BlockProgram::Read(int value, const void* from, int64_t begin,
                        int64_t count, void* to) const {
  const Source& source = sources_[value];
  const std::vector<Loop>& loops = source.loops;
  const DType dtype = dtypes_[value];
  const bool is_float = registers_[value].is_float;
  const auto read = [&](int64_t offset, int64_t stride, int64_t n, int64_t at) {
    if (is_float) {
      ReadFloats(dtype, from, offset, stride, n, static_cast<float*>(to) + at);
    } else {
      ReadInts(dtype, from, offset, stride, n, static_cast<int64_t*>(to) + at);
    }
  };
  if (loops.empty()) return read(0, 0, count, 0);
  // The memory may be null if the space is empty.
  for (const Loop& loop : loops) {
    if (loop.extent == 0) return;
  }
  // Row by row along the innermost loop, carrying into the outer ones.
  const int rank = static_cast<int>(loops.size());
  absl::InlinedVector<int64_t, 6> at(rank);
  int64_t offset = 0, rest = begin;
  for (int i = rank - 1; i >= 0; --i) {
    at[i] = rest % loops[i].extent;
    rest /= loops[i].extent;
    offset += at[i] * loops[i].stride;
  }
  const Loop& inner = loops[rank - 1];
  const bool is_short =
      rank > 1 && inner.extent <= kShortRow && dtype == kFloat32;
  for (int64_t done = 0; done < count;) {
    if (is_short && at[rank - 1] == 0 && count - done >= inner.extent) {
      const int64_t rows = std::min(loops[rank - 2].extent - at[rank - 2],
                                    (count - done) / inner.extent);
      const int64_t stride = loops[rank - 2].stride;
      ReadRows(static_cast<const float*>(from) + offset, rows, stride,
               inner.extent, inner.stride, static_cast<float*>(to) + done);
      done += rows * inner.extent;
      offset += (rows - 1) * stride;
      at[rank - 2] += rows - 1;
    } else {
      const int64_t n = std::min(inner.extent - at[rank - 1], count - done);
      read(offset, inner.stride, n, done);
      done += n;
      offset -= at[rank - 1] * inner.stride;
      at[rank - 1] = 0;
    }
    for (int i = rank - 2; i >= 0; --i) {
      offset += loops[i].stride;
      if (++at[i] < loops[i].extent) break;
      offset -= loops[i].extent * loops[i].stride;
      at[i] = 0;
    }
  }
}

void BlockProgram::FillIota(int value, int64_t begin, int64_t count,
                            void* to) const {
  const MapStep& step = StepOf(value);
  int64_t inner = 1;
  int dim = static_cast<int>(space_.size()) - 1;
  for (; dim >= 0 && space_[dim].name != step.dimension; --dim) {
    inner *= space_[dim].extent;
  }
  MTF_CHECK_LE(0, dim) << "iota over " << step.dimension;
  const int64_t extent = space_[dim].extent, offset = space_[dim].offset;
  int64_t within = begin % inner, at = begin / inner % extent;
  int64_t ints[kBlock];
  int64_t* values =
      registers_[value].is_float ? ints : static_cast<int64_t*>(to);
  for (int64_t done = 0; done < count;) {
    if (inner == 1) {
      const int64_t n = std::min(extent - at, count - done);
      for (int64_t i = 0; i < n; ++i) values[done + i] = offset + at + i;
      done += n;
      at = 0;
      continue;
    }
    const int64_t n = std::min(inner - within, count - done);
    std::fill(values + done, values + done + n, offset + at);
    done += n;
    within = 0;
    if (++at == extent) at = 0;
  }
  if (registers_[value].is_float) {
    IntsToFloats(step.dtype, ints, count, static_cast<float*>(to));
  }
}

void BlockProgram::Evaluator::Free::operator()(void* p) const { std::free(p); }

BlockProgram::Evaluator::Evaluator(const BlockProgram& program,
                                   BlockPrefetch* prefetch)
    : program_(program),
      prefetch_(prefetch),
      memory_(static_cast<std::byte*>(
          std::aligned_alloc(64, (program.memory_bytes_ + 64) / 64 * 64))),
      data_of_(program.dtypes_.size(), nullptr) {
  MTF_CHECK(memory_ != nullptr) << program.memory_bytes_ << " bytes";
  for (size_t i = 0; i < data_of_.size(); ++i) {
    const Register& reg = program.registers_[program.root_[i]];
    if (reg.offset >= 0) data_of_[i] = memory_.get() + reg.offset;
  }
  for (const Source& source : program.sources_) {
    operand_data_.push_back(source.data);
  }
  phases_.assign(operand_data_.size(), -1);
  ReadConstants();
}

void BlockProgram::Evaluator::ReadConstants() {
  const int result = program_.root_.back();
  for (int value : program_.prologue_) {
    const int64_t count = value == result ? kBlock : kLanes;
    if (value >= program_.num_operands()) {
      Step(value, count, data_of_[value]);
    } else if (operand_data_[value] != nullptr) {
      program_.Read(value, operand_data_[value], 0, count, data_of_[value]);
    }
  }
}

FloatArgument BlockProgram::Evaluator::FloatOf(int value) const {
  const int root = program_.root_[value];
  return {static_cast<const float*>(data_of_[root]),
          program_.registers_[root].uniform};
}

IntArgument BlockProgram::Evaluator::IntOf(int value) const {
  const int root = program_.root_[value];
  return {static_cast<const int64_t*>(data_of_[root]),
          program_.registers_[root].uniform};
}

// Evaluates one step on full vectors.
void BlockProgram::Evaluator::Step(int value, int64_t count, void* to) {
  const MapStep& step = program_.StepOf(value);
  const bool to_float = program_.registers_[value].is_float;
  float* floats = static_cast<float*>(to);
  int64_t* ints = static_cast<int64_t*>(to);
  if (step.function == F::kLiteral) {
    // Round a literal by storing it as an element of its dtype.
    int64_t element = 0;
    StoreElement(&element, step.dtype, 0, step.literal);
    return to_float ? ReadFloats(step.dtype, &element, 0, 0, count, floats)
                    : ReadInts(step.dtype, &element, 0, 0, count, ints);
  }
  const int first = program_.root_[step.arguments[0]];
  const bool from_float = program_.registers_[first].is_float;
  // The arguments of a uniform step may be narrower than what it writes.
  const bool narrow = step.function == F::kCast &&
                      program_.registers_[first].uniform && count > kLanes;
  if (narrow) {
    Step(value, kLanes, to);
    if (to_float) {
      std::fill(floats + kLanes, floats + count, floats[0]);
    } else {
      std::fill(ints + kLanes, ints + count, ints[0]);
    }
    return;
  }
  if (step.function == F::kCast) {
    const float* x = FloatOf(first).data;
    const int64_t* i = IntOf(first).data;
    if (from_float) {
      to_float ? RoundFloats(step.dtype, x, count, floats)
               : FloatsToInts(step.dtype, x, count, ints);
    } else {
      to_float ? IntsToFloats(step.dtype, i, count, floats)
               : IntsToInts(step.dtype, i, count, ints);
    }
    return;
  }
  if (step.function == F::kSelect && !to_float) {
    return SelectInts(FloatOf(step.arguments[0]), IntOf(step.arguments[1]),
                      IntOf(step.arguments[2]), ints, count);
  }
  // The bound silences compiler warnings about array bounds.
  constexpr size_t kMaxArguments = StepArguments::kMost;
  const size_t count_of_arguments =
      std::min(step.arguments.size(), kMaxArguments);
  if (from_float) {
    FloatArgument arguments[kMaxArguments];
    for (size_t i = 0; i < count_of_arguments; ++i) {
      arguments[i] = FloatOf(step.arguments[i]);
    }
    EvaluateFloats(step.function, arguments, floats, count);
    const bool rounds =
        program_.rounds_result_ || value != program_.root_.back();
    if (rounds && step.dtype != kFloat32) {
      RoundFloats(step.dtype, floats, count, floats);
    }
    return;
  }
  IntArgument arguments[kMaxArguments];
  for (size_t i = 0; i < count_of_arguments; ++i) {
    arguments[i] = IntOf(step.arguments[i]);
  }
  if (to_float) return CompareInts(step.function, arguments, floats, count);
  EvaluateInts(step.function, arguments, ints, count);
  // Registers are wider than i32, which wraps after every step.
  if (step.dtype == kInt32) IntsToInts(kInt32, ints, count, ints);
}

void BlockProgram::Evaluator::StepOfChain(int value, int64_t count, float* to) {
  const Chain& chain = program_.chains_[value];
  ChainLink links[kMaxLinks];
  for (size_t i = 0; i < chain.links.size(); ++i) {
    const Chain::Link& link = chain.links[i];
    links[i] = {link.function, link.is_left, FloatOf(link.other)};
  }
  EvaluateFloatChain(FloatOf(chain.first), {links, chain.links.size()}, to,
                     count);
}

const void* BlockProgram::Evaluator::Run(int64_t begin, int64_t count,
                                         float* out) {
  const int result = program_.root_.back();
  const int64_t rounded = RoundUp(count);
  for (int value : program_.order_) {
    std::byte* memory = memory_.get() + program_.registers_[value].offset;
    if (value < program_.num_operands()) {
      const Source& source = program_.sources_[value];
      if (source.direct && begin + rounded <= program_.elements_) {
        data_of_[value] = const_cast<float*>(
            static_cast<const float*>(operand_data_[value]) + begin);
      } else if (source.period > 0) {
        data_of_[value] = memory;
        const int64_t phase = begin % source.period;
        if (phases_[value] != phase) {
          program_.Read(value, operand_data_[value], phase, kBlock, memory);
          phases_[value] = phase;
        }
      } else {
        data_of_[value] = memory;
        program_.Read(value, operand_data_[value], begin, count, memory);
      }
    } else {
      const bool last = value == result && out != nullptr;
      data_of_[value] = last ? static_cast<void*>(out) : memory;
      if (program_.StepOf(value).function == F::kIota) {
        program_.FillIota(value, begin, count, data_of_[value]);
      } else if (!program_.chains_[value].links.empty()) {
        StepOfChain(value, rounded, static_cast<float*>(data_of_[value]));
      } else {
        Step(value, rounded, data_of_[value]);
      }
    }
    if (prefetch_ != nullptr && program_.prefetches_) prefetch_->Step();
  }
  return data_of_[result];
}

const float* BlockProgram::Evaluator::Floats(int64_t begin, int64_t count,
                                             float* out) {
  return static_cast<const float*>(Run(begin, count, out));
}

const int64_t* BlockProgram::Evaluator::Ints(int64_t begin, int64_t count) {
  return static_cast<const int64_t*>(Run(begin, count, nullptr));
}

void BlockProgram::Evaluator::Store(int64_t begin, int64_t count,
                                    void* result) {
  const DType dtype = program_.dtype();
  if (!program_.is_float()) {
    WriteInts(dtype, Ints(begin, count), count, result, begin, 1);
    return;
  }
  float* out = nullptr;
  if (dtype == kFloat32 && count % kLanes == 0) {
    out = static_cast<float*>(result) + begin;
  }
  const float* x = Floats(begin, count, out);
  if (x != out) WriteFloats(dtype, x, count, result, begin, 1);
}

}  // namespace mtf::cpu
