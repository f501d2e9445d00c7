// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_TRAIN_CHECKPOINT_SAVED_VALUES_H_
#define TESTS_TRAIN_CHECKPOINT_SAVED_VALUES_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/constant.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {

// All variables of a session by name, put together from first replicas.
inline std::map<std::string, HostTensor> AllValues(Session& session) {
  std::map<std::string, HostTensor> values;
  for (const VariableInfo& info : session.graph().variables()) {
    values[info.name] = HostTensor(info.shape, info.dtype);
  }
  std::mutex mutex;
  EXPECT_OK(session.OnEachRank([&](RankVariables& rank) -> absl::Status {
    for (const VariableShard& shard : rank.shards()) {
      if (!shard.first_replica) continue;
      MTF_ASSIGN_OR_RETURN(const HostTensor value, rank.Read(shard));
      const std::lock_guard<std::mutex> lock(mutex);
      CopyShard({rank.rank(), shard.dims, value}, values[shard.name]);
    }
    return absl::OkStatus();
  }));
  return values;
}

// What checkpoints have of a session: masters under the names of parameters.
inline std::map<std::string, HostTensor> SavedValues(Session& session) {
  std::map<std::string, HostTensor> values = AllValues(session);
  for (const VariableInfo& info : session.graph().variables()) {
    if (info.master < 0) continue;
    const std::string& master = session.graph().variables()[info.master].name;
    values[info.name] = values[master];
    values.erase(master);
  }
  return values;
}

// A few variables of different dtypes whose dimensions do not divide.
struct TinyModel {
  Graph graph;
  std::unique_ptr<Session> session;

  explicit TinyModel(const std::string& mesh, const std::string& layout = "",
                     double value = 0) {
    const Dimension rows{"rows", 5}, columns{"columns", 3};
    Variable(graph, "w", Zeros(graph, kFloat32, {rows, columns}));
    Variable(graph, "half", Zeros(graph, kBFloat16, {columns}));
    Variable(graph, "count", Zeros(graph, kInt32, {}),
             {.kind = VariableKind::kOptimizerState, .trainable = false});
    StateVariable(graph, "seen", Zeros(graph, kBool, {rows}));
    auto made = Session::Create(graph, mesh, layout);
    EXPECT_OK(made);
    if (!made.ok()) return;
    session = *std::move(made);
    EXPECT_OK(session->Initialize());
    if (value != 0) Fill(value);
  }
  // Sets elements to numbers that depend on `value`.
  void Fill(double value) {
    for (const VariableInfo& info : graph.variables()) {
      std::vector<double> values(info.shape.num_elements());
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = info.dtype == kBool ? (i + static_cast<size_t>(value)) % 2
                                        : value + static_cast<double>(i);
      }
      EXPECT_OK(session->WriteVariable(
          info.name, HostTensor::FromDoubles(info.shape, info.dtype, values)));
    }
  }
};

}  // namespace mtf::train

#endif  // TESTS_TRAIN_CHECKPOINT_SAVED_VALUES_H_
