// SPDX-License-Identifier: Apache-2.0
#include "lowering/second_names.h"

#include <bit>
#include <cstdint>
#include <numeric>

#include "absl/strings/string_view.h"

namespace mtf {
namespace {

constexpr int kMostNames = 64;  // bits of a set of names

// Names that are one dimension, as sets of bits.
class Families {
 public:
  explicit Families(const NamePairs& second_names) {
    std::vector<std::pair<int, int>> pairs;
    for (const auto& [second, first] : second_names) {
      pairs.emplace_back(PlaceOf(second), PlaceOf(first));
    }
    std::vector<int> family(places_.size());
    std::iota(family.begin(), family.end(), 0);
    for (const auto& [a, b] : pairs) {
      const int from = family[a], to = family[b];
      for (int& each : family) each = each == from ? to : each;
    }
    sets_.resize(places_.size(), 0);
    for (size_t i = 0; i < family.size() && i < kMostNames; ++i) {
      for (size_t j = 0; j < family.size() && j < kMostNames; ++j) {
        if (family[i] == family[j]) sets_[i] |= uint64_t{1} << j;
      }
    }
  }

  size_t size() const { return places_.size(); }
  int Find(absl::string_view name) const { return places_.at(name); }

  uint64_t NamesIn(const Shape& shape) const {
    uint64_t names = 0;
    for (const Dimension& dim : shape) {
      const auto found = places_.find(dim.name);
      if (found != places_.end()) names |= uint64_t{1} << found->second;
    }
    return names;
  }

  // Those of `names` that are one dimension with another of them.
  uint64_t Clashing(uint64_t names) const {
    uint64_t clashing = 0;
    for (uint64_t rest = names; rest != 0; rest &= rest - 1) {
      const uint64_t family = names & sets_[std::countr_zero(rest)];
      if (std::popcount(family) > 1) clashing |= family;
    }
    return clashing;
  }

 private:
  int PlaceOf(absl::string_view name) {
    return places_.emplace(name, static_cast<int>(places_.size()))
        .first->second;
  }

  absl::flat_hash_map<std::string, int> places_;
  std::vector<uint64_t> sets_;  // by place: the names of its dimension
};

// Whether `operation` gives dimensions other names: it has both of each, one
// after the other.
bool Renames(const Operation& operation) {
  if (!operation.TiedDimensions().empty()) return true;
  if (operation.inputs().size() != 1) return false;
  const Shape &from = operation.inputs()[0].shape(), &to = operation.shape();
  bool same = from.rank() == to.rank();
  for (int i = 0; same && i < to.rank(); ++i) same = from[i].size == to[i].size;
  return same;
}

}  // namespace

NamePairs SecondNamesOf(const Graph& graph) {
  NamePairs given;
  for (const auto& operation : graph.operations()) {
    for (auto& pair : operation->SecondNames()) {
      bool known = false;
      for (const auto& before : given) known = known || before == pair;
      if (!known) given.push_back(std::move(pair));
    }
  }
  if (given.empty()) return given;
  const Families families(given);
  if (families.size() > kMostNames) return {};

  // By id of an operation: the names in its shape.
  std::vector<uint64_t> names;
  names.reserve(graph.operations().size());
  uint64_t clashing = 0;
  const Shape* last = nullptr;
  for (const auto& operation : graph.operations()) {
    const Shape& shape = operation->shape();
    const bool as_before = last != nullptr && shape == *last;
    names.push_back(as_before ? names.back() : families.NamesIn(shape));
    last = &shape;
    uint64_t met = names.back();
    for (const Tensor& input : operation->inputs()) {
      met |= names[input.operation()->id()];
    }
    if (std::popcount(met) > 1 && !Renames(*operation)) {
      clashing |= families.Clashing(met);
    }
    clashing |= families.Clashing(names.back());
  }
  NamePairs second_names;
  for (auto& pair : given) {
    if (clashing >> families.Find(pair.first) & 1) continue;
    second_names.push_back(std::move(pair));
  }
  return second_names;
}

absl::flat_hash_map<std::string, std::string> FirstNames(
    const NamePairs& second_names, const std::vector<bool>& ruled) {
  absl::flat_hash_map<std::string, std::string> first_names;
  const auto first_of = [&first_names](std::string name) {
    for (auto next = first_names.find(name); next != first_names.end();
         next = first_names.find(name)) {
      name = next->second;
    }
    return name;
  };
  for (size_t i = 0; i < second_names.size(); ++i) {
    const auto& [second, first] = second_names[i];
    // A name that has stood for its own first one leads back to itself.
    if (!ruled[i] && first_of(first) != second) {
      first_names.emplace(second, first);
    }
  }
  for (auto& [second, first] : first_names) first = first_of(first);
  return first_names;
}

const std::string& FirstNamesEmitter::First(const std::string& name) const {
  const auto found = first_names_.find(name);
  return found == first_names_.end() ? name : found->second;
}

const Shape& FirstNamesEmitter::First(const Shape& shape,
                                      Shape& renamed) const {
  for (int i = 0; i < shape.rank(); ++i) {
    const std::string& first = First(shape[i].name);
    if (first == shape[i].name) continue;
    std::vector<Dimension> dims = shape.dims();
    for (Dimension& dim : dims) dim.name = First(dim.name);
    renamed = Shape(std::move(dims));
    return renamed;
  }
  return shape;
}

Value FirstNamesEmitter::InNamesOf(Value value, const Shape& shape) {
  if (program_.values[value.id].shape == shape) return value;
  return emitter_.Reshape(value, shape);
}

Value FirstNamesEmitter::Input(const std::string& name, DType dtype,
                               const Shape& shape) {
  return Reshape(emitter_.Input(name, dtype, shape), shape);
}

Value FirstNamesEmitter::ReadVariable(const VariableInfo& variable) {
  return Reshape(emitter_.ReadVariable(variable), variable.shape);
}

Value FirstNamesEmitter::WriteVariable(const VariableInfo& variable,
                                       Value value) {
  Shape space;
  const Shape& shape = First(variable.shape, space);
  if (shape == variable.shape) return emitter_.WriteVariable(variable, value);
  // The value may have its dimensions in another order.
  std::vector<Dimension> dims = program_.values[value.id].shape.dims();
  for (Dimension& dim : dims) {
    dim.name = variable.shape[shape.Find(dim.name)].name;
  }
  const Value written = emitter_.WriteVariable(
      variable, InNamesOf(value, Shape(std::move(dims))));
  return Reshape(written, variable.shape);
}

Value FirstNamesEmitter::Constant(std::vector<double> data, DType dtype,
                                  const Shape& shape) {
  Shape space;
  return emitter_.Constant(std::move(data), dtype, First(shape, space));
}

Value FirstNamesEmitter::Random(RandomKind kind, uint32_t stream, bool per_step,
                                DType dtype, const Shape& shape) {
  Shape space;
  return emitter_.Random(kind, stream, per_step, dtype, First(shape, space));
}

Value FirstNamesEmitter::Map(const MapExpression& expression,
                             absl::Span<const Value> operands,
                             const Shape& shape) {
  Shape space;
  const Shape& result = First(shape, space);
  for (const MapStep& step : expression.steps) {
    if (step.dimension == First(step.dimension)) continue;
    MapExpression renamed = expression;
    for (MapStep& each : renamed.steps) each.dimension = First(each.dimension);
    return emitter_.Map(renamed, operands, result);
  }
  return emitter_.Map(expression, operands, result);
}

Value FirstNamesEmitter::Einsum(absl::Span<const Value> operands,
                                const Shape& shape, DType dtype) {
  Shape space;
  return emitter_.Einsum(operands, First(shape, space), dtype);
}

Value FirstNamesEmitter::Reduce(ReduceKind kind, Value value,
                                const Shape& shape) {
  Shape space;
  return emitter_.Reduce(kind, value, First(shape, space));
}

Value FirstNamesEmitter::Reshape(Value value, const Shape& shape) {
  Shape space;
  return InNamesOf(value, First(shape, space));
}

Value FirstNamesEmitter::Slice(Value value, const std::string& dimension,
                               int64_t begin, int64_t size) {
  return emitter_.Slice(value, First(dimension), begin, size);
}

Value FirstNamesEmitter::Pad(Value value, const std::string& dimension,
                             int64_t before, int64_t after, double fill) {
  return emitter_.Pad(value, First(dimension), before, after, fill);
}

Value FirstNamesEmitter::Concat(absl::Span<const Value> values,
                                const std::string& dimension) {
  return emitter_.Concat(values, First(dimension));
}

Value FirstNamesEmitter::Gather(Value table, Value indices,
                                const std::string& dimension,
                                const Shape& shape) {
  Shape space;
  return emitter_.Gather(table, indices, First(dimension), First(shape, space));
}

Value FirstNamesEmitter::ScatterAdd(Value updates, Value indices,
                                    const std::string& dimension,
                                    const Shape& shape) {
  Shape space;
  return emitter_.ScatterAdd(updates, indices, First(dimension),
                             First(shape, space));
}

Value FirstNamesEmitter::Scan(ReduceKind kind, Value value,
                              const std::string& dimension, bool exclusive,
                              bool reverse) {
  return emitter_.Scan(kind, value, First(dimension), exclusive, reverse);
}

Value FirstNamesEmitter::TopK(Value value, const std::string& dimension,
                              const Dimension& k) {
  return emitter_.TopK(value, First(dimension), {First(k.name), k.size});
}

Value FirstNamesEmitter::Whole(Value value,
                               absl::Span<const std::string> dimensions) {
  std::vector<std::string> names;
  names.reserve(dimensions.size());
  for (const std::string& name : dimensions) names.push_back(First(name));
  return emitter_.Whole(value, names);
}

}  // namespace mtf
