// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/machine.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planning/machine/units.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CollectiveKind kMoving[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
    CollectiveKind::kCollectivePermute};
constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

Machine Preset(const std::string& name) {
  const absl::StatusOr<Machine> machine = Machine::Load(name);
  EXPECT_OK(machine);
  return *machine;
}

AxisList Axes(const Mesh& mesh, const std::vector<std::string>& names) {
  AxisList axes;
  for (const std::string& name : names) axes.push_back(mesh.Find(name));
  return axes;
}

double Seconds(const Machine& machine, CollectiveKind kind,
               const std::string& mesh_text,
               const std::vector<std::string>& axes, double bytes) {
  const Mesh mesh = *Mesh::Parse(mesh_text);
  return machine.CollectiveSeconds(kind, mesh, Axes(mesh, axes),
                                   static_cast<int64_t>(bytes));
}

TEST(Machine, SecondsAreNonDecreasingInBytes) {
  for (const std::string& name : Machine::PresetNames()) {
    if (name == "this_host") continue;
    const Machine machine = Preset(name);
    for (CollectiveKind kind : kMoving) {
      for (const auto& [mesh, axis] :
           std::vector<std::pair<std::string, std::string>>{
               {"x:2", "x"},
               {"x:8", "x"},
               {"x:6,y:5", "x"},
               {"x:64,y:8", "x"},
               {"x:64,y:8", "y"},
               {"x:512", "x"},
               {"x:3,y:4,z:2", "x"},
               {"x:4096,y:2", "x"}}) {
        double before = 0;
        for (double bytes = 0; bytes < 64 * kGiB; bytes = bytes * 1.3 + 1) {
          const double seconds = Seconds(machine, kind, mesh, {axis}, bytes);
          EXPECT_GE(seconds, before) << name << " " << mesh << " " << bytes;
          EXPECT_GT(seconds, 0);
          before = seconds;
        }
      }
    }
    double before = 0;
    for (double bytes = 0; bytes < kGiB; bytes = bytes * 1.3 + 1) {
      const double seconds = machine.CopySeconds(static_cast<int64_t>(bytes));
      EXPECT_GE(seconds, before) << name;
      before = seconds;
    }
  }
}

constexpr char kPlain[] = R"(machine plain
[device]
memory 1 GiB
bandwidth 10 GB/s
latency 5 us
overlap yes
[matmul f32]
peak 1 TFLOP/s
flops 1e6:0.1 1e10:0.5
side 1:0.25 16:1
[link inner]
ranks 4
bandwidth 1 GB/s
latency 10 us
[link outer]
bandwidth 100 MB/s
latency 100 us
)";

Machine Plain() { return *Machine::Parse(kPlain, "test"); }

TEST(Machine, WithoutATableUsesMessagesAndBytesOnTheWire) {
  const Machine machine = Plain();
  const auto seconds = [&](CollectiveKind kind) {
    return Seconds(machine, kind, "x:4", {"x"}, 4e6);
  };
  // 2 (n-1)/n S, (n-1)/n S and S; 2 log2 n, log2 n, n-1 and 1 messages.
  EXPECT_DOUBLE_EQ(seconds(CollectiveKind::kAllReduce), 6e-3 + 4 * 1e-5);
  EXPECT_DOUBLE_EQ(seconds(CollectiveKind::kAllGather), 3e-3 + 2 * 1e-5);
  EXPECT_DOUBLE_EQ(seconds(CollectiveKind::kReduceScatter), 3e-3 + 2 * 1e-5);
  EXPECT_DOUBLE_EQ(seconds(CollectiveKind::kAllToAll), 3e-3 + 3 * 1e-5);
  EXPECT_DOUBLE_EQ(seconds(CollectiveKind::kCollectivePermute), 4e-3 + 1e-5);
  EXPECT_EQ(seconds(CollectiveKind::kAllSlice), 0);
}

TEST(Machine, MembersCountsRanksWithinANode) {
  const Machine machine = Plain();
  const auto members = [&](const std::string& text,
                           const std::vector<std::string>& axes) {
    const Mesh mesh = *Mesh::Parse(text);
    return machine.Members(mesh, Axes(mesh, axes));
  };
  EXPECT_THAT(members("x:3,y:4", {"y"}), ElementsAre(4, 4));
  EXPECT_THAT(members("x:3,y:4", {"x"}), ElementsAre(1, 3));
  EXPECT_THAT(members("x:3,y:4", {"x", "y"}), ElementsAre(4, 12));
  EXPECT_THAT(members("x:3,y:2", {"x"}), ElementsAre(1, 3));
  EXPECT_THAT(members("x:4,y:2", {"x"}), ElementsAre(2, 4));
  EXPECT_THAT(members("x:4,y:2,z:2", {"x", "z"}), ElementsAre(2, 8));
  EXPECT_THAT(members("x:2,y:8", {"y"}), ElementsAre(4, 8));
  // A mesh smaller than a node is within one node, for any sizes.
  EXPECT_THAT(members("x:3", {"x"}), ElementsAre(3, 3));
  // Groups of 3 do not align with nodes of 4: some span two nodes, so no two
  // ranks are assumed to share one.
  EXPECT_THAT(members("x:4,y:3", {"y"}), ElementsAre(1, 3));
  // Groups of 6: pairs of ranks do.
  EXPECT_THAT(members("x:2,y:6", {"y"}), ElementsAre(2, 6));
}

// No block that Members counts within a node spans two nodes.
TEST(Machine, MembersNeverCountsRanksOfTwoNodes) {
  const Machine machine = Plain();
  for (int a = 1; a <= 6; ++a) {
    for (int b = 1; b <= 6; ++b) {
      for (int c = 1; c <= 5; ++c) {
        const Mesh mesh =
            *Mesh::Parse(absl::StrCat("a:", a, ",b:", b, ",c:", c));
        for (AxisSet set = 1; set < 8; ++set) {
          const AxisList axes = ListOf(set);
          const int64_t inside = machine.Members(mesh, axes)[0];
          for (int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
            int64_t near = 0;
            for (int64_t other : mesh.Group(rank, axes)) {
              near += other / 4 == rank / 4;
            }
            EXPECT_GE(near, inside) << mesh.ToString() << " set " << set;
          }
        }
      }
    }
  }
}

TEST(Machine, TheSlowestLinkDeterminesTheTimeAndOthersAddLatency) {
  const Machine machine = Plain();
  // Three nodes of four: each rank carries a quarter of the bytes that a ring
  // of twelve sends out of a node.
  EXPECT_DOUBLE_EQ(
      Seconds(machine, CollectiveKind::kAllReduce, "x:3,y:4", {"x", "y"}, 4e6),
      2.0 * 11 / 12 * 1e6 / 1e8 + 2 * std::log2(3) * 1e-4 + 4 * 1e-5);
  // 8 of 12 blocks go to other nodes.
  EXPECT_DOUBLE_EQ(
      Seconds(machine, CollectiveKind::kAllToAll, "x:3,y:4", {"x", "y"}, 12e6),
      8e6 / 1e8 + 2 * 1e-4 + 3 * 1e-5);
  EXPECT_DOUBLE_EQ(Seconds(machine, CollectiveKind::kCollectivePermute,
                           "x:3,y:4", {"x", "y"}, 1e6),
                   1e6 / 1e8 + 1e-4);
}

// One per cent more bytes never takes much more time, also where another link
// becomes the slowest.
TEST(Machine, SecondsAreContinuousWhereAnotherLinkBecomesTheSlowest) {
  for (const std::string& name : Machine::PresetNames()) {
    if (name == "this_host") continue;
    const Machine machine = Preset(name);
    // With one link the slope is that of its table, which may be steep where
    // a cache ends.
    if (machine.links().size() == 1) continue;
    for (CollectiveKind kind : kMoving) {
      for (const char* mesh : {"data:8", "data:16", "data:24", "data:512"}) {
        if (!machine.CheckMesh(*Mesh::Parse(mesh)).ok()) continue;
        double before = 0;
        for (double bytes = 1024; bytes < kGiB; bytes *= 1.01) {
          const double seconds = Seconds(machine, kind, mesh, {"data"}, bytes);
          if (before > 0) {
            EXPECT_LE(seconds, 1.03 * before)
                << name << " " << CollectiveName(kind) << " " << mesh << " "
                << bytes;
          }
          before = seconds;
        }
      }
    }
  }
}

// Published: 4 GiB over four nodes of eight, 364.9 GB/s of bus bandwidth
// (ml-engineering), which is 2 (n-1)/n bytes over seconds.
TEST(Machine, FourNodesReduceAsPublished) {
  const Machine machine = Preset("h100_nvlink_ib");
  const double seconds = Seconds(machine, CollectiveKind::kAllReduce,
                                 "data:4,model:8", {"data", "model"}, 4 * kGiB);
  EXPECT_NEAR(2.0 * 31 / 32 * 4 * kGiB / seconds / 1e9, 364.9, 0.05 * 364.9);
}

TEST(Machine, ATableIsUsedForOtherNumbersOfRanks) {
  const Machine machine = *Machine::Parse(absl::StrCat(R"([device]
memory 1 GiB
bandwidth 10 GB/s
latency 5 us
[matmul f32]
peak 1 TFLOP/s
[link a]
bandwidth 1 GB/s
latency 10 us
all_reduce over 8
  1 KiB 100 us
  1 MiB 1 ms
  1 GiB 1 s
)"),
                                          "test");
  const auto seconds = [&](const std::string& mesh, double bytes) {
    return Seconds(machine, CollectiveKind::kAllReduce, mesh, {"x"}, bytes);
  };
  EXPECT_DOUBLE_EQ(seconds("x:8", kMiB), 1e-3);
  // Two ranks put 4/7 of the bytes on the wire and need 4 messages less.
  EXPECT_NEAR(seconds("x:2", kMiB * 7 / 4), 1e-3 - 4e-5, 1e-9);
  // 16 need 2 more.
  EXPECT_NEAR(seconds("x:16", kMiB * 14 / 15), 1e-3 + 2e-5, 1e-9);
  EXPECT_GT(seconds("x:2", 0), 0);
}

TEST(Machine, UsesTheTableOfTheNearestNumberOfRanks) {
  const Machine machine = *Machine::Parse(R"([device]
memory 1 GiB
bandwidth 10 GB/s
latency 5 us
[matmul f32]
peak 1 TFLOP/s
[link a]
bandwidth 1 GB/s
latency 10 us
all_gather over 2
  1 KiB 1 ms
  1 MiB 2 ms
all_gather over 16
  1 KiB 3 ms
  1 MiB 4 ms
)",
                                          "test");
  EXPECT_DOUBLE_EQ(
      Seconds(machine, CollectiveKind::kAllGather, "x:2", {"x"}, kMiB), 2e-3);
  EXPECT_DOUBLE_EQ(
      Seconds(machine, CollectiveKind::kAllGather, "x:16", {"x"}, kMiB), 4e-3);
  // A table does not affect other kinds of collectives.
  EXPECT_DOUBLE_EQ(
      Seconds(machine, CollectiveKind::kReduceScatter, "x:2", {"x"}, 1e6),
      0.5e-3 + 1e-5);
}

TEST(Machine, AMatmulIsBoundByFlopsOrByBytes) {
  const Machine machine = Plain();
  // 1e9 FLOPs reach a share of 0.1 + 0.75 * 0.4.
  EXPECT_NEAR(machine.MatmulSeconds(kFloat32, 1, 1000, 1000, 500),
              5e-6 + 1e9 / (1e12 * 0.4), 1e-9);
  // A batch counts as one launch.
  EXPECT_NEAR(machine.MatmulSeconds(kFloat32, 2, 1000, 1000, 250),
              5e-6 + 1e9 / (1e12 * 0.4), 1e-9);
  // Short sides leave the unit partly idle: 4 of 16 is halfway from 0.25 to 1.
  EXPECT_NEAR(machine.MatmulSeconds(kFloat32, 1, 4, 100000, 12500),
              std::max(5e-6 + 1e10 / (1e12 * 0.5 * 0.625),
                       5e-6 + 4 * (4 * 12500.0 + 12500 * 1e5 + 4e5) / 1e10),
              1e-6);
  // A product with a vector is bound by reading its matrix.
  EXPECT_NEAR(machine.MatmulSeconds(kFloat32, 1, 1, 10000, 10000),
              5e-6 + 4 * (1e4 + 1e8 + 1e4) / 1e10, 1e-9);
  EXPECT_DOUBLE_EQ(machine.CopySeconds(10000000), 5e-6 + 1e-3);
  // A dtype without rates uses those of f32.
  EXPECT_GT(machine.MatmulSeconds(kBFloat16, 1, 1000, 1000, 1000), 0);
}

TEST(Machine, PrintedTextParsesToTheSameMachine) {
  for (const std::string& name : Machine::PresetNames()) {
    if (name == "this_host") continue;
    const Machine machine = Preset(name);
    EXPECT_EQ(machine.name(), name);
    const auto again = Machine::Parse(machine.ToString(), "printed");
    ASSERT_OK(again);
    EXPECT_EQ(again->ToString(), machine.ToString());
    EXPECT_EQ(again->memory_bytes(), machine.memory_bytes());
    const double bytes = 3e6;
    EXPECT_NEAR(
        Seconds(*again, CollectiveKind::kAllReduce, "x:16", {"x"}, bytes) /
            Seconds(machine, CollectiveKind::kAllReduce, "x:16", {"x"}, bytes),
        1, 1e-6);
  }
}

TEST(Machine, TheDocumentedTextIsAMachine) {
  std::ifstream file(std::filesystem::path(GOLDEN_DIR) /
                     "../../docs/machines.md");
  std::string page((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = page.find("```text\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string text =
      page.substr(begin + 8, page.find("```", begin + 8) - begin - 8);
  const auto machine = Machine::Parse(text, "docs/machines.md");
  ASSERT_OK(machine);
  EXPECT_EQ(machine->name(), "example");
  EXPECT_TRUE(machine->overlaps());
  EXPECT_TRUE(machine->fuses());
  EXPECT_EQ(machine->links().size(), 2u);
}

TEST(Machine, AMeshLargerThanTheMachineIsAnError) {
  const Machine machine = Preset("h200_x8");
  EXPECT_OK(machine.CheckMesh(*Mesh::Parse("model:8")));
  EXPECT_THAT(
      machine.CheckMesh(*Mesh::Parse("data:2,model:8")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("16 ranks, but machine \"h200_x8\" connects only 8")));
  EXPECT_OK(
      Preset("a100_nvlink_ib").CheckMesh(*Mesh::Parse("data:512,model:8")));
}

class MachineFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "mtf_machines";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    setenv("MTF_MACHINES", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("MTF_MACHINES");
    std::filesystem::remove_all(folder_);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  std::filesystem::path folder_;
};

TEST_F(MachineFolder, ContainsThisHostAfterCalibration) {
  EXPECT_THAT(
      Machine::Load("this_host"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("run mtf calibrate")));
  Write("this_host.machine", Plain().ToString());
  const auto machine = Machine::Load("this_host");
  ASSERT_OK(machine);
  EXPECT_EQ(machine->name(), "plain");
  EXPECT_EQ(*Machine::UserPath("this_host"),
            (folder_ / "this_host.machine").string());
}

TEST_F(MachineFolder, APathIsReadAndAnUnknownNameSuggestsTheNearestPreset) {
  Write("mine.machine", kPlain);
  EXPECT_OK(Machine::Load((folder_ / "mine.machine").string()));
  EXPECT_OK(Machine::Load("mine"));
  EXPECT_THAT(Machine::Load("h200_x9"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"h200_x8\"?")));
  EXPECT_THAT(Machine::Load("./none.machine"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.machine")));
  EXPECT_THAT(Machine::Load(folder_.string()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not a regular file")));
  Write("large.machine", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(Machine::Load((folder_ / "large.machine").string()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the limit is 1048576")));
}

TEST(Units, ParseAndFormat) {
  EXPECT_EQ(*ParseQuantity("80GiB", Quantity::kBytes), 80 * kGiB);
  EXPECT_EQ(*ParseQuantity(" 1.5  GB/s", Quantity::kBytesPerSecond), 1.5e9);
  EXPECT_DOUBLE_EQ(*ParseQuantity("1e3us", Quantity::kSeconds), 1e-3);
  EXPECT_EQ(*ParseQuantity("312 TFLOP/s", Quantity::kFlopsPerSecond), 312e12);
  EXPECT_EQ(FormatQuantity(80 * kGiB, Quantity::kBytes), "80 GiB");
  EXPECT_EQ(FormatQuantity(141e9, Quantity::kBytes), "141 GB");
  EXPECT_EQ(FormatQuantity(3.5e-6, Quantity::kSeconds), "3.5 us");
  EXPECT_EQ(FormatQuantity(2e-10, Quantity::kSeconds), "0.2 ns");
}

}  // namespace
}  // namespace mtf
