// SPDX-License-Identifier: Apache-2.0
//
// The oracle: runs a graph on global tensors in double precision, with plain
// loops. It knows no mesh and no layout and shares no code with lowering or the
// kernels, so results that agree with it agree with the definition.
#ifndef BACKENDS_REFERENCE_INTERPRETER_H_
#define BACKENDS_REFERENCE_INTERPRETER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// A tensor of the oracle: one double per element, row-major. Elements of float
// dtypes keep the precision of double; only a cast to a float dtype rounds.
// Integers wrap around, bools are 0 and 1.
struct OracleTensor {
  Shape shape;
  DType dtype = kFloat32;
  std::vector<double> data;
};

using OracleFeeds = std::map<std::string, HostTensor>;
using OracleVariables = std::map<std::string, OracleTensor>;

struct InterpretOptions {
  uint32_t seed = 0;
  uint32_t step = 0;
};

// Runs the operations that `fetches` depend on and returns the fetched values.
// Assignments among them change `variables` after the step has succeeded.
// `variables` may be null for a graph that reads no variables.
//
//   OracleVariables variables;
//   MTF_RETURN_IF_ERROR(InitializeVariables(graph, seed, &variables));
//   auto values = Interpret(graph, {{"x", x}}, {loss, step}, &variables);
//
// Returns the graph's own error if it has one; kInvalidArgument for a fetch
// that is empty or of another graph, and for a feed that is missing, unknown or
// of another shape or dtype than its input; kFailedPrecondition for a variable
// without a value; kOutOfRange for an index outside its table;
// kResourceExhausted for a tensor of more than 2^28 elements.
absl::StatusOr<std::vector<OracleTensor>> Interpret(
    const Graph& graph, const OracleFeeds& feeds,
    const std::vector<Tensor>& fetches, OracleVariables* variables = nullptr,
    InterpretOptions options = {});

// Sets every variable of `graph` to its initial value, computed for step 0.
absl::Status InitializeVariables(const Graph& graph, uint32_t seed,
                                 OracleVariables* variables);

// The emitter that Interpret uses. A call that fails on data sets status() and
// returns zeros.
class ReferenceInterpreter : public Emitter {
 public:
  // All must outlive the interpreter; `variables` may be null.
  ReferenceInterpreter(const OracleFeeds& feeds,
                       const OracleVariables* variables,
                       InterpretOptions options)
      : feeds_(feeds), variables_(variables), options_(options) {}

  const absl::Status& status() const { return status_; }
  const OracleTensor& Get(Value value) const { return values_[value.id]; }
  // The values of WriteVariable, to be stored at the end of the step.
  const OracleVariables& writes() const { return writes_; }
  // Sets the operation whose Emit is called next, for errors.
  void set_operation(const Operation* operation) { operation_ = operation; }

  Value Input(const std::string& name, DType dtype,
              const Shape& shape) override;
  Value ReadVariable(const VariableInfo& variable) override;
  Value WriteVariable(const VariableInfo& variable, Value value) override;
  Value Constant(std::vector<double> data, DType dtype,
                 const Shape& shape) override;
  Value Random(RandomKind kind, uint32_t stream, bool per_step, DType dtype,
               const Shape& shape) override;
  Value Map(const MapExpression& expression, absl::Span<const Value> operands,
            const Shape& shape) override;
  Value Einsum(absl::Span<const Value> operands, const Shape& shape,
               DType dtype) override;
  Value Reduce(ReduceKind kind, Value value, const Shape& shape) override;
  absl::Status CheckAttention(const AttentionSignature&) const override {
    return absl::OkStatus();
  }
  AttentionResults<Value> Attention(const AttentionSpec& spec,
                                    const AttentionOperands<Value>& operands,
                                    const Shape& output) override;
  AttentionGradients<Value> AttentionGradient(
      const AttentionSpec& spec, const AttentionOperands<Value>& operands,
      const AttentionResults<Value>& results,
      const AttentionResults<Value>& gradients) override;
  Value Reshape(Value value, const Shape& shape) override;
  Value Slice(Value value, const std::string& dimension, int64_t begin,
              int64_t size) override;
  Value Pad(Value value, const std::string& dimension, int64_t before,
            int64_t after, double fill) override;
  Value Concat(absl::Span<const Value> values,
               const std::string& dimension) override;
  Value Shift(Value value, const std::string& dimension, int64_t offset,
              bool wrap) override;
  Value Windows(Value value, const WindowSpec& spec) override;
  Value FoldWindows(Value windows, const WindowSpec& spec,
                    int64_t size) override;
  Value Gather(Value table, Value indices, const std::string& dimension,
               const Shape& shape) override;
  Value ScatterAdd(Value updates, Value indices, const std::string& dimension,
                   const Shape& shape) override;
  Value DynamicSlice(Value value, Value index, const std::string& dimension,
                     const Shape& shape) override;
  Value UpdateSlice(Value value, Value update, Value index,
                    const std::string& dimension) override;
  Value Scan(ReduceKind kind, Value value, const std::string& dimension,
             bool exclusive, bool reverse) override;
  Value Depend(Value value, absl::Span<const Value> after) override;
  RankedValues TopK(Value value, const std::string& dimension,
                    const Dimension& k, bool least) override;
  Value Unshard(Value value, absl::Span<const std::string> dimensions) override;

 private:
  Value Keep(OracleTensor tensor);
  Value Fail(absl::Status status, DType dtype, const Shape& shape);
  absl::Status CheckIndices(const OracleTensor& indices,
                            const Dimension& dimension) const;
  // Of the index of a DynamicSlice or UpdateSlice.
  absl::Status CheckRows(const OracleTensor& index, int64_t rows,
                         const Dimension& dimension) const;

  const OracleFeeds& feeds_;
  const OracleVariables* variables_;
  const InterpretOptions options_;
  const Operation* operation_ = nullptr;
  absl::Status status_;
  std::deque<OracleTensor> values_;  // by Value::id; references stay valid
  OracleVariables writes_;
};

}  // namespace mtf

#endif  // BACKENDS_REFERENCE_INTERPRETER_H_
