// SPDX-License-Identifier: Apache-2.0
//
// The errors of a build without MPI.
#include "backends/communicator.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

TEST(WithoutMpi, TheErrorNamesTheOptionThatBuildsIt) {
  EXPECT_THAT(
      CreateMpiCommunicator(Mesh()).status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("-DMTF_WITH_MPI")));
  EXPECT_THAT(
      MpiWorldSize().status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("-DMTF_WITH_MPI")));
}

TEST(WithoutMpiDeathTest, AbortAllRanksEndsThisProcess) {
  EXPECT_EXIT(AbortAllRanks(7), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mtf
