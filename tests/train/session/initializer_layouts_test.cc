// SPDX-License-Identifier: Apache-2.0
//
// Initial values have the same bits under every layout.
#include <map>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/layers/initializers.h"
#include "nn/layers/parameter.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

std::map<std::string, HostTensor> InitialValues(const std::string& mesh,
                                                const std::string& layout) {
  const std::pair<const char*, nn::Initializer> initializers[] = {
      {"normal", nn::LeCun()},
      {"truncated", nn::He(nn::Distribution::kTruncatedNormal)},
      {"uniform", nn::Glorot()},
      {"orthogonal", nn::Orthogonal()}};
  Graph graph;
  for (const auto& [name, init] : initializers) {
    nn::Kernel(graph, name, {{"in", 21}}, {{"heads", 5}, {"out", 7}}, kFloat32,
               {.init = init});
  }
  std::map<std::string, HostTensor> values;
  const auto session = Session::Create(graph, mesh, layout, {.seed = 4});
  EXPECT_OK(session);
  if (!session.ok()) return values;
  EXPECT_OK((*session)->Initialize());
  for (const auto& [name, init] : initializers) {
    const auto value = (*session)->ReadVariable(name);
    EXPECT_OK(value);
    values[name] = *value;
  }
  return values;
}

TEST(InitialValues, HaveTheSameBitsUnderEveryLayout) {
  const auto one = InitialValues("", "");
  const std::pair<const char*, const char*> layouts[] = {
      {"model:2", "in:model"},
      {"model:3", "heads:model"},
      {"a:2,b:2", "in:a, out:b"},
      {"a:2,b:2", "[parameters] in:a+b [optimizer] out:b"}};
  for (const auto& [mesh, layout] : layouts) {
    SCOPED_TRACE(layout);
    for (const auto& [name, value] : InitialValues(mesh, layout)) {
      EXPECT_TRUE(value == one.at(name)) << name;
    }
  }
}

}  // namespace
}  // namespace mtf::train
