// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/safetensors.h"

#include <sys/stat.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/checkpoint/temporary_folder.h"
#include "train/checkpoint/safetensors_set.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::mtf::testing::ThoroughTests;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kBroken = absl::StatusCode::kDataLoss;

// The bytes of a file with this header and data.
std::string FileBytes(const std::string& header, const std::string& data) {
  std::string size(8, '\0');
  for (int i = 0; i < 8; ++i) {
    size[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return size + header + data;
}

absl::Status StatusOfFile(const std::string& bytes) {
  const TemporaryFolder folder;
  WriteTestFile(folder / "x.safetensors", bytes);
  return SafetensorsFile::Open(folder / "x.safetensors").status();
}
absl::Status StatusOfHeader(const std::string& header,
                            const std::string& data = "") {
  return StatusOfFile(FileBytes(header, data));
}

HostTensor Numbers(Shape shape, DType dtype) {
  std::vector<double> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = dtype == kBool ? i % 2 : static_cast<double>(i % 200);
  }
  return HostTensor::FromDoubles(shape, dtype, values);
}

// The bytes of the file of another program, byte for byte.
TEST(Safetensors, ReadsTheFormat) {
  const TemporaryFolder folder;
  WriteTestFile(
      folder / "m.safetensors",
      FileBytes("{\"__metadata__\":{\"format\":\"pt\"},"
                "\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[8,"
                "16]},\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],"
                "\"data_offsets\":[0,8]},\"s\":{\"dtype\":\"F64\",\"shape\":[],"
                "\"data_offsets\":[16,24]}}   ",
                std::string("\0\0\x80\x3f\0\0\0\xc0\x05\0\0\0\xff\xff\xff\xff"
                            "12345678",
                            24)));
  const auto file = SafetensorsFile::Open(folder / "m.safetensors");
  ASSERT_OK(file);
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  ASSERT_EQ((*file)->entries().size(), 3u);
  EXPECT_EQ((*file)->entries()[0].name, "a") << "in the order of offsets";
  const auto a = (*file)->Read("a"), b = (*file)->Read("b");
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(*a, HostTensor::Of<float>({{"d0", 1}, {"d1", 2}}, {1, -2}));
  EXPECT_EQ(*b, HostTensor::Of<int32_t>({{"d0", 2}}, {5, -1}));
  EXPECT_THAT(
      (*file)->Read("s"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("m.safetensors\": tensor \"s\" F64[] has a "
                               "dtype that mtf lacks"),
                     HasSubstr("\n  help     convert it to F32"))));
  EXPECT_THAT((*file)->Read("aa").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT((*file)->Read("a", {{0, 1}, {1, 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("range [0:1, 1:3] is outside tensor \"a\" "
                                 "F32[1, 2]")));
}

// Every range of small tensors equals what is copied from the whole tensor.
TEST(Safetensors, RangesOfEveryDType) {
  const TemporaryFolder folder;
  const Shape shape({{"d0", 3}, {"d1", 4}, {"d2", 5}});
  std::vector<SafetensorsSpec> specs;
  for (DType dtype : kAllDTypes) {
    specs.push_back({std::string(DTypeName(dtype)), dtype, {3, 4, 5}});
  }
  specs.push_back({"scalar", kFloat32, {}});
  specs.push_back({"empty", kFloat32, {4, 0}});
  const auto writer = SafetensorsWriter::Create(folder / "x", specs, {});
  ASSERT_OK(writer);
  // In another order than that of the file.
  for (int i = 5; i >= 0; --i) {
    ASSERT_OK((*writer)->Write(DTypeName(kAllDTypes[i]),
                               Numbers(shape, kAllDTypes[i])));
  }
  ASSERT_OK((*writer)->Write("scalar", Numbers({}, kFloat32)));
  ASSERT_OK((*writer)->Finish());
  const auto file = SafetensorsFile::Open(folder / "x");
  ASSERT_OK(file);
  for (DType dtype : kAllDTypes) {
    const std::vector<double> all = Numbers(shape, dtype).ToDoubles();
    for (int i = 0; i < 3 * 6 * 10 * 15; ++i) {
      const int64_t b0 = i % 3, b1 = i / 3 % 4, b2 = i / 12 % 5;
      const int64_t s0 = 1 + i / 60 % (3 - b0), s1 = 1 + i / 180 % (4 - b1),
                    s2 = i / 720 % (6 - b2);
      const auto part =
          (*file)->Read(DTypeName(dtype), {{b0, s0}, {b1, s1}, {b2, s2}});
      ASSERT_OK(part);
      std::vector<double> expected;
      for (int64_t x = b0; x < b0 + s0; ++x) {
        for (int64_t y = b1; y < b1 + s1; ++y) {
          for (int64_t z = b2; z < b2 + s2; ++z) {
            expected.push_back(all[(x * 4 + y) * 5 + z]);
          }
        }
      }
      ASSERT_EQ(part->ToDoubles(), expected);
    }
  }
  EXPECT_EQ((*file)->Read("empty")->num_elements(), 0);
}

// Two ranks write columns of one file.
TEST(Safetensors, SeveralWritersOfOneFile) {
  const TemporaryFolder folder;
  const std::vector<SafetensorsSpec> specs = {{"w", kBFloat16, {4, 6}},
                                              {"v", kInt64, {3}}};
  const std::map<std::string, std::string> metadata = {{"a", "b\n\"\xC3\xA4"}};
  const auto first = SafetensorsWriter::Create(folder / "x", specs, metadata);
  ASSERT_OK(first);
  const auto second = SafetensorsWriter::Join(folder / "x", specs, metadata);
  ASSERT_OK(second);
  const HostTensor ones = HostTensor::FromDoubles(
      {{"r", 4}, {"c", 3}}, kBFloat16, std::vector<double>(12, 1));
  const HostTensor twos = HostTensor::FromDoubles(
      {{"r", 4}, {"c", 3}}, kBFloat16, std::vector<double>(12, 2));
  ASSERT_OK((*first)->Write("w", {{0, 4}, {0, 3}}, ones));
  ASSERT_OK((*second)->Write("w", {{0, 4}, {3, 3}}, twos));
  ASSERT_OK((*second)->Write("v", Numbers({{"n", 3}}, kInt64)));
  ASSERT_OK((*first)->Finish());
  ASSERT_OK((*second)->Finish());
  const auto file = SafetensorsFile::Open(folder / "x");
  ASSERT_OK(file);
  EXPECT_EQ((*file)->metadata(), metadata);
  EXPECT_EQ((*file)->entries()[0].offset % 64, 0);
  const std::vector<double> w = (*file)->Read("w")->ToDoubles();
  for (int i = 0; i < 24; ++i) EXPECT_EQ(w[i], i % 6 < 3 ? 1 : 2) << i;
  EXPECT_EQ((*file)->Read("v")->ToDoubles(), std::vector<double>({0, 1, 2}));
  EXPECT_THAT((*first)->Write("w", {{0, 4}, {0, 4}}, ones),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the value for range [0:4, 0:4] of tensor "
                                 "\"w\" BF16[4, 6]")));
  EXPECT_THAT(
      SafetensorsWriter::Create(folder / "x", specs, {}),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("cannot create")));
}

TEST(SafetensorsErrors, RulesOfTheHeader) {
  struct Wrong {
    const char *header, *message;
  };
  const auto entry = [](const char* fields) {
    return absl::StrCat("{\"a\":{", fields, "}}");
  };
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {" {}", "does not begin with \"{\""},
      {"{\"a\":1", "the header is not valid: character 7"},
      {"[]", "does not begin with"},
      {"{\"a\":1}", "tensor \"a\" lacks its \"dtype\""},
      {"{\"a\":{\"b\":{}}}", "unknown field \"b\""},
      {"{\"a\":{\"b\":{\"c\":{\"d\":1}}}}", "nested more than 3 deep"},
      {"{\"__metadata__\":[]}", "\"__metadata__\" is not an object"},
      {"{\"__metadata__\":{\"a\":1}}",
       "entry \"a\" of \"__metadata__\" is not"},
      {"{\"a\":{},\"a\":{}}", "the name \"a\" occurs twice"},
      {"{\"a\xff\":{}}", "the header is not valid"},
      {entry("\"dtype\":\"F33\",\"shape\":[],\"data_offsets\":[0,4]"),
       "the unknown dtype \"F33\""},
      {entry("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"),
       "not an integer from 0"},
      {entry("\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]"),
       "not an integer from 0"},
      {entry("\"dtype\":\"F32\",\"shape\":[18446744073709551615],"
             "\"data_offsets\":[0,4]"),
       "not an integer from 0"},
      {entry("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
             "\"data_offsets\":[0,0]"),
       "too many elements"},
      {entry("\"dtype\":\"F32\",\"shape\":[4611686018427387904,0,4],"
             "\"data_offsets\":[0,0]"),
       "too many elements"},
      {entry("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]"),
       "no whole number of bytes"},
      {entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"),
       "has 4 bytes, but its offsets are [4, 0]"},
      {entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]"),
       "has 4 bytes, but its offsets are [0, 8]"},
      {entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"),
       "lacks its"},
      {entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1"),
       "unknown field \"x\""},
      {entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]"),
       "begins at byte"},
      {entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":"
             "[9223372036854775800,9223372036854775804]"),
       "begins at offset 9223372036854775800"},
      {entry("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"),
       "but the file has"},
      {entry("\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]"),
       "the last tensor ends at byte"},
      {"{\"a\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[0,3]},"
       "\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
       "tensor \"b\" begins at byte"},
      {"{\"a\\u001b[31m\\n\":{}}", "tensor \"a\\x1b[31m\\n\" lacks"}};
  for (const auto& [header, message] : wrong) {
    EXPECT_THAT(StatusOfHeader(header, "1234"),
                StatusIs(kBroken, AllOf(HasSubstr("x.safetensors\": "),
                                        HasSubstr(message))))
        << header;
  }
  EXPECT_OK(StatusOfHeader("{}"));
}

TEST(SafetensorsErrors, SizesOfTheHeader) {
  EXPECT_THAT(StatusOfFile("123"), StatusIs(kBroken, HasSubstr("has 3 bytes")));
  EXPECT_THAT(StatusOfFile(std::string(8, '\xff')),
              StatusIs(kBroken, HasSubstr("more than 0 bytes")));
  EXPECT_THAT(StatusOfFile(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
              StatusIs(kBroken, HasSubstr("more than 2 bytes")));
  EXPECT_THAT(StatusOfFile(std::string("PK\x03\x04\0\0\0\0xxxxxxxxxxxx", 20)),
              StatusIs(kBroken, HasSubstr("files of PyTorch")));
  // A sparse file, larger than a header may be.
  const TemporaryFolder folder;
  WriteTestFile(folder / "x", std::string("\x01\xe1\xf5\x05\0\0\0\0{", 9));
  std::filesystem::resize_file(folder / "x", 200'000'000);
  EXPECT_THAT(SafetensorsFile::Open(folder / "x"),
              StatusIs(kBroken, HasSubstr("more than 100000000 bytes")));
}

TEST(SafetensorsErrors, FilesThatAreNone) {
  const TemporaryFolder folder;
  EXPECT_THAT(SafetensorsFile::Open(folder / "none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none\": No")));
  EXPECT_THAT(SafetensorsFile::Open(folder.path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not a regular file")));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsFile::Open(folder / "pipe"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not a regular file")));
  WriteTestFile(folder / "x", FileBytes("{}", ""));
  std::filesystem::create_symlink("x", folder / "link");
  EXPECT_OK(SafetensorsFile::Open(folder / "link"));
  EXPECT_THAT(
      SafetensorsFile::Open(folder / "link", {.links = Links::kReject}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("symbolic link")));
}

// Truncated while it is open: an error and not a signal.
TEST(SafetensorsErrors, TruncatedWhileOpen) {
  const TemporaryFolder folder;
  const auto writer =
      SafetensorsWriter::Create(folder / "x", {{"w", kFloat32, {1000}}}, {});
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Finish());
  const auto file = SafetensorsFile::Open(folder / "x");
  ASSERT_OK(file);
  std::filesystem::resize_file(folder / "x", 2000);
  EXPECT_THAT((*file)->Read("w"), StatusIs(kBroken, HasSubstr("ends at byte")));
}

TEST(SafetensorsErrors, ABoolThatIsNone) {
  const TemporaryFolder folder;
  WriteTestFile(folder / "x", FileBytes("{\"a\":{\"dtype\":\"BOOL\",\"shape\":["
                                        "3],\"data_offsets\":[0,3]}}",
                                        std::string("\0\x01\x02", 3)));
  const auto file = SafetensorsFile::Open(folder / "x");
  ASSERT_OK(file);
  EXPECT_OK((*file)->Read("a", {{0, 2}}));
  EXPECT_THAT((*file)->Read("a"),
              StatusIs(kBroken, HasSubstr("element 2 of what was read of "
                                          "tensor \"a\" BOOL[3] is 2")));
}

TEST(SafetensorsErrors, TensorsThatCannotBeWritten) {
  const TemporaryFolder folder;
  const auto status = [&](std::vector<SafetensorsSpec> specs) {
    return SafetensorsWriter::Create(folder / "x", specs, {}).status();
  };
  const auto is_error = [](const char* message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message));
  };
  EXPECT_THAT(status({{"a", kFloat32, {1}}, {"a", kFloat32, {1}}}),
              is_error("occurs twice"));
  EXPECT_THAT(status({{"a", kFloat32, {-1}}}), is_error("negative size"));
  EXPECT_THAT(status({{"a\xff", kFloat32, {1}}}), is_error("is not UTF-8"));
  EXPECT_THAT(status({{"__metadata__", kFloat32, {1}}}),
              is_error("cannot be written"));
  EXPECT_THAT(status({{"a", kFloat32, {int64_t{1} << 61, 4}}}),
              is_error("too many elements"));
}

std::string Index(const std::string& map, const std::string& metadata = "{}") {
  return absl::StrCat("{\"metadata\":", metadata, ",\"weight_map\":", map, "}");
}

TEST(SafetensorsSet, FilesIndexesAndFolders) {
  const TemporaryFolder folder;
  for (const char* part : {"a", "b"}) {
    const auto writer = SafetensorsWriter::Create(
        folder / absl::StrCat(part, ".safetensors"),
        {{absl::StrCat(part, ".w"), kFloat32, {2}}}, {});
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->Write(absl::StrCat(part, ".w"),
                               Numbers({{"n", 2}}, kFloat32)));
    ASSERT_OK((*writer)->Finish());
  }
  EXPECT_THAT(SafetensorsSet::Open(folder.path()),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("has      2 files named *.safetensors")));
  const std::string index = folder / "model.safetensors.index.json";
  ASSERT_OK(WriteSafetensorsIndex(
      index, {{{"a.w", "a.safetensors"}, {"b.w", "b.safetensors"}}, 16}));
  for (const std::string& path : {index, folder.path(), folder / ""}) {
    const auto set = SafetensorsSet::Open(path);
    ASSERT_OK(set);
    EXPECT_EQ((*set)->names(), std::vector<std::string>({"a.w", "b.w"}));
    EXPECT_EQ((*set)->Read("b.w")->ToDoubles(), std::vector<double>({0, 1}));
    EXPECT_EQ((*set)->Read("b.w", {{1, 1}})->ToDoubles(),
              std::vector<double>({1}));
    EXPECT_THAT((*set)->Read("b.v"),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr("no tensor \"b.v\"; did you mean")));
    EXPECT_TRUE((*set)->notices().empty());
  }
  const auto one = SafetensorsSet::Open(folder / "a.safetensors");
  ASSERT_OK(one);
  EXPECT_EQ((*one)->names(), std::vector<std::string>({"a.w"}));

  const auto status = [&](const std::string& text) {
    WriteTestFile(folder / "i.json", text);
    return SafetensorsSet::Open(folder / "i.json").status();
  };
  const std::string both =
      "{\"a.w\":\"a.safetensors\",\"b.w\":\"b.safetensors\"}";
  EXPECT_OK(status(Index(both)));
  EXPECT_OK(status(Index(both, "{\"total_size\":16.0}")));
  EXPECT_THAT(status(Index("{\"a.w\":\"../a.safetensors\"}")),
              StatusIs(kBroken, HasSubstr("is \"../a.safetensors\", which is "
                                          "not the name of a file")));
  for (const char* name : {"", "..", "/etc/passwd", "a\\u0000b", "x/y"}) {
    EXPECT_THAT(status(Index(absl::StrCat("{\"a.w\":\"", name, "\"}"))),
                StatusIs(kBroken, HasSubstr("not the name of a file")));
  }
  EXPECT_THAT(status(Index("{\"a.w\":1}")),
              StatusIs(kBroken, HasSubstr("i.json\": the file of tensor")));
  EXPECT_THAT(status(Index("{}")), StatusIs(kBroken, HasSubstr("weight_map")));
  EXPECT_THAT(status("{}"), StatusIs(kBroken, HasSubstr("weight_map")));
  EXPECT_THAT(status("{"), StatusIs(kBroken, HasSubstr("not an index")));
  EXPECT_THAT(status(Index("{\"a.w\":\"a.safetensors\"}{")),
              StatusIs(kBroken, HasSubstr("not an index")));
  EXPECT_THAT(status(Index("{\"a.w\":\"c.safetensors\"}")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("c.safetens")));
  EXPECT_THAT(status(Index("{\"c.w\":\"a.safetensors\"}")),
              StatusIs(kBroken, HasSubstr("has no tensor \"c.w\"")));
  EXPECT_THAT(status(Index("{\"a.w\":\"b.safetensors\","
                           "\"b.w\":\"a.safetensors\"}")),
              StatusIs(kBroken, HasSubstr("has no tensor \"a.w\"")));
  WriteTestFile(folder / "i.json", Index(both, "{\"total_size\":17}"));
  const auto set = SafetensorsSet::Open(folder / "i.json");
  ASSERT_OK(set);
  ASSERT_EQ((*set)->notices().size(), 1u);
  EXPECT_THAT((*set)->notices()[0], HasSubstr("states 17 bytes in all, but "
                                              "its tensors have 16"));
}

// Mutated headers and indexes are read, or are errors with a message.
TEST(SafetensorsErrors, MutatedTexts) {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\","
      "\"shape\":[1,2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"BF16\","
      "\"shape\":[4],\"data_offsets\":[8,16]}}";
  const std::string index =
      Index("{\"a\":\"a-1.safetensors\",\"b\":\"a-2.safetensors\"}",
            "{\"total_size\":16}");
  const std::string pieces[] = {
      "{",    "}",        "[",    "]",  "\"",  ":",
      ",",    "-1",       "0",    "9",  "1e9", "F4",
      "\\",   "\n",       "\xff", "..", "/",   "99999999999999999999",
      "null", "\"a\":{},"};
  std::mt19937 random(1);
  const int count = ThoroughTests() ? 4000 : 300;
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    std::string text = i % 2 == 0 ? header : index;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      const std::string& piece = pieces[random() % std::size(pieces)];
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.insert(at, piece);
          break;
        case 2:
          text.replace(at, std::min<size_t>(text.size() - at, 1 + random() % 9),
                       piece);
          break;
        default:
          text = text.substr(0, at) + text.substr(random() % text.size());
      }
      if (text.empty()) text = " ";
    }
    const absl::Status status =
        i % 2 == 0 ? ParseSafetensorsHeader(
                         text, 24 + static_cast<int64_t>(text.size()))
                         .status()
                   : ParseSafetensorsIndex(text).status();
    accepted += status.ok();
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), kBroken) << text;
    EXPECT_GT(status.message().size(), 10u) << text;
    EXPECT_LT(status.message().size(), 1500u) << text;
    for (char c : status.message()) {
      EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << status;
    }
  }
  EXPECT_LT(accepted, count / 2);
}

}  // namespace
}  // namespace mtf::train
