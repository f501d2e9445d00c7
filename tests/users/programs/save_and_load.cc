// SPDX-License-Identifier: Apache-2.0
//
// Saves a model to a file in the middle of training, loads it into a second
// session, trains both to the same end, bit by bit.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
// Layout: data:3 | batch:data [parameters] hidden:data [optimizer] hidden:data
//
// Missing: checkpoint files, and the step of the session: the second session
// begins at step 0, so the random numbers of a step, such as dropout, would be
// others. Here all data are a function of the step that the program counts.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 24}, io{"io", 4}, hidden{"hidden", 16};

// The numbers of all variables one after another, in the order of their names.
absl::Status Write(const std::string& path,
                   const train::SavedState::Values& values) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& [name, value] : values) {
    file.write(static_cast<const char*>(value.data()), value.num_bytes());
  }
  return file.flush() ? absl::OkStatus()
                      : absl::DataLossError(absl::StrCat("writing ", path));
}

// `values` has the names and shapes.
absl::Status Read(const std::string& path, train::SavedState::Values& values) {
  std::ifstream file(path, std::ios::binary);
  for (auto& [name, value] : values) {
    file.read(static_cast<char*>(value.data()), value.num_bytes());
  }
  return file ? absl::OkStatus()
              : absl::DataLossError(absl::StrCat("reading ", path));
}

absl::Status Learn() {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {batch, io});
  Tensor h = nn::Dense(x, {io}, {hidden}, {.activation = Relu});
  Tensor loss = ReduceMean(Square(nn::Dense(h, {hidden}, {io}) - Abs(x)), {});
  Tensor step = nn::AdamW({.learning_rate = 0.01}).Minimize(loss);
  const train::SavedState state(graph);
  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};

  const auto train = [&](train::Session& session, int begin,
                         int end) -> absl::StatusOr<std::vector<double>> {
    std::vector<double> losses;
    for (int i = begin; i < end; ++i) {
      std::vector<double> rows;
      for (int j = 0; j < batch.size * io.size; ++j) {
        rows.push_back((i * 31 + j * 17) % 101 / 50.0 - 1);
      }
      train::RunRequest now = request;
      now.feeds = {{"x", HostTensor::FromDoubles({batch, io}, kFloat32, rows)}};
      MTF_ASSIGN_OR_RETURN(auto values, session.Run(now));
      MTF_ASSIGN_OR_RETURN(losses.emplace_back(), values[0].At(0));
    }
    return losses;
  };

  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  MTF_RETURN_IF_ERROR(train(*session, 0, 10).status());
  const char* folder = std::getenv("TMPDIR");
  const std::string path =
      absl::StrCat(folder ? folder : "/tmp", "/mtf_users_", getpid(), ".state");
  MTF_ASSIGN_OR_RETURN(auto values, state.Save(*session));
  MTF_RETURN_IF_ERROR(Write(path, values));

  MTF_ASSIGN_OR_RETURN(auto other, train::StartSession(graph, request));
  MTF_ASSIGN_OR_RETURN(auto loaded, state.Save(*other));
  MTF_RETURN_IF_ERROR(Read(path, loaded));
  std::remove(path.c_str());
  MTF_RETURN_IF_ERROR(state.Load(*other, loaded));

  MTF_ASSIGN_OR_RETURN(const auto expected, train(*session, 10, 20));
  MTF_ASSIGN_OR_RETURN(const auto actual, train(*other, 10, 20));
  for (double now : actual)
    train::Say(absl::StrFormat("result loss %.9f", now));
  return actual == expected ? absl::OkStatus()
                            : absl::InternalError("another end");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Saves and loads a model.", &Learn);
}
