// SPDX-License-Identifier: Apache-2.0
#include "mtf/graph.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "mtf/check.h"
#include "mtf/errors.h"

namespace mtf {
namespace {

// The result of a wrong call, for the calls that follow it. The error is
// returned by Graph::status().
class ErrorOp : public Operation {
 public:
  using Operation::Operation;
  absl::string_view kind() const override { return "error"; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter&, absl::Span<const Value>) const override {
    MTF_CHECK(false) << "emitted a graph whose status() is an error";
    return {};
  }
};

// FNV-1a, the same on every machine.
uint32_t Fingerprint(absl::string_view text) {
  uint32_t hash = 2166136261u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// Throws std::bad_alloc if there is no memory for one more key. An exception
// while a hash table of Abseil grows would leave it in a state that its
// destructor cannot handle.
template <class Map>
void CheckMemoryToGrow(const Map& map) {
  const size_t capacity = map.capacity();
  // Tables grow at a load of 7/8.
  if (map.size() < capacity - capacity / 8) return;
  constexpr size_t kSlot = sizeof(typename Map::value_type) + 1;
  ::operator delete(::operator new((2 * capacity + 1) * kSlot + 64));
}

// Names are printed on one line and split at slashes.
absl::Status CheckScopeName(absl::string_view name) {
  const char* wrong = nullptr;
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty()) wrong = "has an empty component";
  }
  for (char c : name) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      wrong = "has a control character";
    }
  }
  if (name.empty()) wrong = "is empty";
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the name \"", absl::CHexEscape(name), "\" of a layer or scope ", wrong));
}

}  // namespace

const Shape& Tensor::shape() const {
  static const Shape& scalar = *new Shape();
  return valid() ? operation_->shape(index_) : scalar;
}

DType Tensor::dtype() const {
  return valid() ? operation_->dtype(index_) : kFloat32;
}

DType Tensor::gradient_dtype() const {
  return operation_->gradient_dtype(index_);
}

int Tensor::id() const { return operation_->first_tensor_ + index_; }

const std::string& Tensor::name() const {
  static const std::string& none = *new std::string("none");
  return valid() ? operation_->name(index_) : none;
}

Graph& Tensor::graph() const {
  MTF_CHECK(valid()) << "an empty Tensor belongs to no graph";
  return operation_->graph();
}

absl::Span<const std::unique_ptr<Operation>> Decomposition::operations() const {
  return absl::MakeSpan(graph->operations()).subspan(begin, end - begin);
}

Dimension Tensor::dim(absl::string_view name,
                      std::source_location location) const {
  const int i = shape().Find(name);
  if (i >= 0) return shape()[i];
  if (valid()) {
    graph().Fail(absl::InvalidArgumentError(absl::StrCat(
                     "\"", this->name(), "\" [", shape().ToString(),
                     "] has no dimension \"", name, "\"")),
                 "dim", location);
  }
  return {std::string(name), 1};
}

CallSite Graph::SiteOf(std::source_location location) const {
  return call_sites_.empty() ? CallSite::Of(location) : call_sites_.front();
}

std::string Graph::MakeUnique(const std::string& name) {
  for (;;) {
    CheckMemoryToGrow(name_counts_);
    const int count = name_counts_[name]++;
    if (count == 0) return name;
    // The suffixed name may exist too, so it has a count of its own.
    std::string candidate = absl::StrCat(name, "_", count);
    CheckMemoryToGrow(name_counts_);
    if (!name_counts_.contains(candidate)) {
      name_counts_[candidate] = 1;
      return candidate;
    }
  }
}

std::string Graph::UniqueName(absl::string_view base) {
  return MakeUnique(fixed_name_.empty() ? absl::StrCat(scope_, base)
                                        : fixed_name_);
}

std::string Graph::UniqueScope(absl::string_view base) {
  const std::string key = absl::StrCat(scope_, base);
  CheckMemoryToGrow(unique_scopes_);
  std::vector<std::string>& names = unique_scopes_[key];
  if (reuse_ != nullptr) {
    const size_t index = reuse_->opened[key]++;
    if (index < names.size()) return names[index];
  }
  names.push_back(MakeUnique(key));
  return names.back();
}

int Graph::NumberOfScope(absl::string_view name) {
  const auto known = scope_numbers_.find(name);
  if (known != scope_numbers_.end()) return known->second;
  scopes_.emplace_back(name);
  CheckMemoryToGrow(scope_numbers_);
  return scope_numbers_[scopes_.back()] = static_cast<int>(scopes_.size()) - 1;
}

int Graph::CommonScope(int a, int b) {
  if (a == b) return a;
  const std::string &first = scopes_[a], &second = scopes_[b];
  // The length of the longest common prefix that ends with a component.
  size_t length = 0;
  for (size_t i = 0; i <= std::min(first.size(), second.size()); ++i) {
    const bool first_ends = i == first.size() || first[i] == '/';
    const bool second_ends = i == second.size() || second[i] == '/';
    if (first_ends && second_ends) length = i;
    if (i < first.size() && i < second.size() && first[i] != second[i]) break;
  }
  return NumberOfScope(std::string(first, 0, length));
}

uint32_t Graph::NextRandomStream() {
  CheckMemoryToGrow(random_streams_);
  std::vector<uint32_t>& streams = random_streams_[scope_];
  if (reuse_ != nullptr && reuse_->repeats_random) {
    const size_t index = reuse_->drawn[scope_]++;
    if (index < streams.size()) return streams[index];
  }
  uint32_t stream = Fingerprint(absl::StrCat(scope_, streams.size()));
  CheckMemoryToGrow(taken_streams_);
  while (!taken_streams_.insert(stream).second) ++stream;
  streams.push_back(stream);
  return stream;
}

Tensor Graph::Add(std::unique_ptr<Operation> operation,
                  std::source_location location, absl::string_view name) {
  for (const Tensor& input : operation->inputs()) {
    if (!input.valid()) {
      return Fail(absl::InvalidArgumentError(absl::StrCat(
                      "an input is an empty Tensor", kEmptyTensorHelp)),
                  operation->kind(), location, operation->shape(),
                  operation->dtype());
    }
    if (&input.graph() != this) {
      return Fail(absl::InvalidArgumentError(absl::StrCat(
                      "input \"", input.name(), "\" belongs to another graph")),
                  operation->kind(), location, operation->shape(),
                  operation->dtype());
    }
  }
  for (int i = 0; i < operation->num_results(); ++i) {
    const absl::Status valid = operation->shape(i).Validate();
    if (valid.ok()) continue;
    return Fail(valid, operation->kind(), location, operation->shape(),
                operation->dtype());
  }
  operation->graph_ = this;
  operation->id_ = static_cast<int>(operations_.size());
  operation->first_tensor_ = num_tensors_;
  num_tensors_ += operation->num_results();
  operation->names_ = {UniqueName(name.empty() ? operation->kind() : name)};
  for (int i = 1; i < operation->num_results(); ++i) {
    operation->names_.push_back(
        absl::StrCat(operation->name(), ".", operation->ResultName(i)));
  }
  operation->call_site_ = SiteOf(location);
  operation->section_ = section_;
  operation->scope_ = rules_scope_ >= 0
                          ? rules_scope_
                          : NumberOfScope(absl::string_view(scope_).substr(
                                0, scope_.empty() ? 0 : scope_.size() - 1));
  operation->axis_conflict_ = axis_conflict_;
  operations_.push_back(std::move(operation));
  return operations_.back()->result();
}

Tensor Graph::Fail(const absl::Status& status, absl::string_view what,
                   std::source_location location, Shape shape, DType dtype) {
  MTF_CHECK(!status.ok()) << "Fail() with an OK status";
  if (status_.ok()) {
    // The location belongs to the first line, which is complete by itself.
    std::string message(status.message());
    const size_t end = message.find('\n');
    const std::string site =
        absl::StrCat(" (", what, ", ", SiteOf(location).ToString(), ")");
    message.insert(end == std::string::npos ? message.size() : end, site);
    status_ = absl::Status(status.code(), message);
  }
  if (!shape.Validate().ok()) shape = {};
  auto operation =
      std::make_unique<ErrorOp>(std::vector<Tensor>{}, std::move(shape), dtype);
  return Add(std::move(operation), location);
}

absl::Status Graph::CheckTensors(const std::vector<Tensor>& tensors,
                                 absl::string_view role) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat(role, " ", i, " is an empty Tensor", kEmptyTensorHelp));
    }
    if (&tensors[i].graph() != this) {
      return absl::InvalidArgumentError(
          absl::StrCat(role, " ", i, ", \"", tensors[i].name(),
                       "\", belongs to another graph"));
    }
  }
  return absl::OkStatus();
}

Tensor Graph::AddInput(std::unique_ptr<Operation> operation,
                       absl::string_view name, std::source_location location) {
  const auto taken = inputs_.find(std::string(name));
  if (taken != inputs_.end()) {
    const Operation& other = *taken->second;
    return Fail(
        absl::AlreadyExistsError(absl::StrCat(
            "input \"", name, "\" was created at ",
            other.call_site().ToString(), " with shape [",
            other.shape().ToString(), "]\n  help     give another name")),
        operation->kind(), location, operation->shape(), operation->dtype());
  }
  const Tensor input = Add(std::move(operation), location, name);
  inputs_[std::string(name)] = input.operation();
  return input;
}

std::string Graph::FeedName(Tensor tensor) const {
  for (const auto& [name, operation] : inputs_) {
    if (operation == tensor.operation()) return name;
  }
  return "";
}

std::vector<std::string> Graph::InputNames() const {
  std::vector<std::string> names;
  for (const auto& [name, operation] : inputs_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Tensor Graph::AddVariable(VariableInfo info, std::source_location location) {
  const std::string name = absl::StrCat(scope_, info.name);
  CheckMemoryToGrow(variable_ids_);
  CheckMemoryToGrow(variable_reads_);
  const auto [taken, is_new] =
      variable_ids_.try_emplace(name, static_cast<int>(variables_.size()));
  if (!is_new) {
    const VariableInfo& other = variables_[taken->second];
    return Fail(
        absl::AlreadyExistsError(absl::StrCat(
            "variable \"", name, "\" was created at ",
            other.call_site.ToString(), " with shape [", other.shape.ToString(),
            "]\n  help     open a Scope, or give another name")),
        "variable", location, info.shape, info.dtype);
  }
  info.id = static_cast<int>(variables_.size());
  info.name = name;
  info.call_site = SiteOf(location);
  variable_reads_[info.read.operation()] = info.id;
  if (info.master_of >= 0) variables_[info.master_of].master = info.id;
  variables_.push_back(std::move(info));
  return variables_.back().read;
}

void Graph::AddObservation(Observation observation,
                           std::source_location location) {
  if (observation.kind == Observation::Kind::kSummary) {
    observation.text = absl::StrCat(scope_, observation.text);
    for (const Observation& other : observations_) {
      if (other.kind != observation.kind || other.text != observation.text) {
        continue;
      }
      Fail(absl::AlreadyExistsError(
               absl::StrCat("summary \"", other.text, "\" was created at ",
                            other.call_site.ToString(),
                            "\n  help     open a Scope, or give another name")),
           "scalar_summary", location);
      return;
    }
  }
  observation.call_site = SiteOf(location);
  observations_.push_back(std::move(observation));
}

Tensor Graph::ReuseVariable(absl::string_view name, const Shape& shape,
                            DType dtype, std::source_location location) {
  const std::string scoped = absl::StrCat(scope_, name);
  const auto found = variable_ids_.find(scoped);
  if (found != variable_ids_.end()) {
    const VariableInfo& known = variables_[found->second];
    if (known.shape == shape && known.dtype == dtype) {
      return reads_averages_ && known.average >= 0
                 ? variables_[known.average].read
                 : known.read;
    }
  }
  const std::string reused = absl::StrCat(
      "scope \"", reuse_->scope, "\", reused at ", reuse_->site.ToString());
  if (found == variable_ids_.end()) {
    std::vector<std::string> names;
    for (const VariableInfo& variable : variables_) {
      if (absl::StartsWith(variable.name, absl::StrCat(reuse_->scope, "/"))) {
        names.push_back(variable.name);
      }
    }
    const std::string nearest = NearestName(scoped, names);
    return Fail(
        absl::NotFoundError(absl::StrCat(
            reused, ", has no variable \"", scoped, "\"",
            nearest.empty()
                ? ""
                : absl::StrCat("; did you mean \"", nearest, "\", created at ",
                               variables_[variable_ids_.at(nearest)]
                                   .call_site.ToString(),
                               "?"),
            "\n  help     build the same layers in the same order under the "
            "same names, and what is new outside of the scope")),
        "variable", location, shape, dtype);
  }
  const VariableInfo& variable = variables_[found->second];
  return Fail(absl::InvalidArgumentError(absl::StrCat(
                  "variable \"", scoped, "\" of ", reused, ", is ",
                  DTypeName(variable.dtype), " [", variable.shape.ToString(),
                  "], created at ", variable.call_site.ToString(), ", and not ",
                  DTypeName(dtype), " [", shape.ToString(), "]",
                  "\n  help     use the same sizes and the same precision, or "
                  "open another scope")),
              "variable", location, shape, dtype);
}

void Graph::SetAverage(Tensor parameter, Tensor average) {
  variables_[FindVariable(parameter)->id].average = FindVariable(average)->id;
}

const VariableInfo* Graph::FindVariable(Tensor tensor) const {
  const auto it = variable_reads_.find(tensor.operation());
  return it == variable_reads_.end() ? nullptr : &variables_[it->second];
}

Scope::Scope(Graph& graph, absl::string_view name, Naming naming,
             std::source_location location)
    : graph_(graph), naming_(naming), previous_(graph.scope_) {
  const absl::Status status = CheckScopeName(name);
  if (!status.ok()) {
    graph.Fail(status, "scope", location);
    name = "scope";
  }
  if (naming == kUnique) {
    graph.scope_ = graph.UniqueScope(name);
  } else {
    absl::StrAppend(&graph.scope_, name);
  }
  graph.scope_ += "/";
  if (naming == kReuse) Reuse(location);
}

Scope::~Scope() {
  graph_.scope_ = std::move(previous_);
  if (naming_ == kReuse) graph_.reuse_ = std::move(previous_reuse_);
}

void Scope::Reuse(std::source_location location) {
  const std::string& scope = graph_.scope_;
  const std::string name = scope.substr(0, scope.size() - 1);
  const bool exists =
      std::any_of(graph_.variables().begin(), graph_.variables().end(),
                  [&](const VariableInfo& variable) {
                    return absl::StartsWith(variable.name, scope);
                  });
  if (!exists) {
    std::vector<std::string> scopes;
    for (const VariableInfo& variable : graph_.variables()) {
      const size_t slash = variable.name.find('/', previous_.size());
      if (slash != std::string::npos) {
        scopes.push_back(variable.name.substr(0, slash));
      }
    }
    const std::string nearest = NearestName(name, scopes);
    graph_.Fail(
        absl::NotFoundError(absl::StrCat(
            "no variable has been created in scope \"", name, "\" to reuse",
            nearest.empty() ? ""
                            : absl::StrCat("; did you mean \"", nearest, "\"?"),
            "\n  help     build it first, in a Scope of this name")),
        "scope", location);
  }
  previous_reuse_ =
      std::exchange(graph_.reuse_, std::make_unique<Graph::Reuse>(Graph::Reuse{
                                       .scope = name,
                                       .site = graph_.SiteOf(location),
                                       .opened = {},
                                       .repeats_random = false,
                                       .drawn = {}}));
}

CallSiteScope::CallSiteScope(Graph& graph, std::source_location location)
    : graph_(graph) {
  graph_.call_sites_.push_back(CallSite::Of(location));
}

CallSiteScope::CallSiteScope(Graph& graph, CallSite site) : graph_(graph) {
  graph_.call_sites_.push_back(std::move(site));
}

PrecisionScope::PrecisionScope(Graph& graph, const Precision& precision,
                               std::source_location location)
    : graph_(graph), previous_(graph.precision_) {
  const absl::Status status = precision.Validate();
  if (status.ok()) {
    graph.precision_ = precision;
  } else {
    graph.Fail(status, "precision", location);
  }
}

AverageScope::AverageScope(Graph& graph, std::source_location location)
    : graph_(graph), previous_(std::exchange(graph.reads_averages_, true)) {
  for (const VariableInfo& variable : graph.variables()) {
    if (variable.average >= 0) return;
  }
  graph.Fail(absl::InvalidArgumentError(
                 "no parameter has a moving average\n  help     set "
                 ".average_decay of the optimizer, and call Minimize() first"),
             "average_scope", location);
}

RecomputeScope::State::State(const Graph& graph)
    : scope(graph.scope_),
      precision(graph.precision_),
      mode(graph.mode_),
      reads_averages(graph.reads_averages_) {
  const bool repeats = graph.reuse_ != nullptr && graph.reuse_->repeats_random;
  for (const auto& [name, streams] : graph.random_streams_) {
    if (!absl::StartsWith(name, scope)) continue;
    drawn[name] = streams.size();
    if (!repeats) continue;
    const auto repeated = graph.reuse_->drawn.find(name);
    drawn[name] = repeated == graph.reuse_->drawn.end() ? 0 : repeated->second;
  }
}

RecomputeScope::RecomputeScope(Graph& graph, const State& state)
    : graph_(graph),
      previous_scope_(std::exchange(graph.scope_, state.scope)),
      previous_name_(std::exchange(graph.fixed_name_, "")),
      previous_rules_scope_(std::exchange(graph.rules_scope_, -1)),
      previous_precision_(std::exchange(graph.precision_, state.precision)),
      previous_mode_(std::exchange(graph.mode_, state.mode)),
      previous_reads_averages_(
          std::exchange(graph.reads_averages_, state.reads_averages)) {
  std::string name = state.scope;
  if (!name.empty()) name.pop_back();  // the slash
  previous_reuse_ = std::exchange(
      graph.reuse_, std::make_unique<Graph::Reuse>(Graph::Reuse{
                        .scope = std::move(name),
                        .site = graph.SiteOf(std::source_location::current()),
                        .opened = {},
                        .repeats_random = true,
                        .drawn = state.drawn}));
}

RecomputeScope::~RecomputeScope() {
  graph_.reuse_ = std::move(previous_reuse_);
  graph_.scope_ = std::move(previous_scope_);
  graph_.fixed_name_ = std::move(previous_name_);
  graph_.rules_scope_ = previous_rules_scope_;
  graph_.precision_ = previous_precision_;
  graph_.mode_ = previous_mode_;
  graph_.reads_averages_ = previous_reads_averages_;
}

GradientScope::GradientScope(Graph& graph, const Operation& forward)
    : graph_(graph), section_(graph.section_), rules_(graph, forward.scope()) {
  // The gradient of "add_grad" is "add_grad_1", without a second suffix.
  std::string name = forward.name();
  const size_t suffix = name.rfind("_grad");
  if (suffix != std::string::npos &&
      name.find_first_not_of("_0123456789", suffix + 5) == std::string::npos) {
    name.resize(suffix);
  }
  name_ = std::exchange(graph_.fixed_name_, absl::StrCat(name, "_grad"));
  call_sites_ = std::exchange(graph_.call_sites_, {forward.call_site()});
  graph_.section_ = forward.section();
  axis_conflict_ = std::exchange(graph_.axis_conflict_, forward.axis_conflict_);
}

GradientScope::~GradientScope() {
  graph_.fixed_name_ = std::move(name_);
  graph_.call_sites_ = std::move(call_sites_);
  graph_.section_ = section_;
  graph_.axis_conflict_ = std::move(axis_conflict_);
}

}  // namespace mtf
