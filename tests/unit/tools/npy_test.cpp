#include "tools/io/npy.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string scratchPath(const std::string &name) { return std::string(testing::TempDir()) + "/" + name; }

std::string writeFile(const std::string &bytes, const std::string &name = "array.npy") {
  const std::string path = scratchPath(name);
  std::filesystem::remove(path); // some file systems flush a file that is truncated and rewritten
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string magic(int version, std::size_t headerBytes) {
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += static_cast<char>(headerBytes >> (8 * i));
  return bytes;
}

/// A file as numpy.save writes it, around any dictionary text and data.
std::string npyBytes(const std::string &dictionary, const std::string &data, int version = 1) {
  return magic(version, dictionary.size() + 1) + dictionary + "\n" + data;
}

std::string dictionary(const std::string &descr, const std::string &shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

template <typename T> std::string bytesOf(const std::vector<T> &values, bool bigEndian = false) {
  std::string bytes;
  for (T value : values) {
    std::string one(reinterpret_cast<const char *>(&value), sizeof(T));
    bytes += bigEndian ? std::string(one.rbegin(), one.rend()) : one;
  }
  return bytes;
}

std::vector<float> readF32(const std::string &bytes) {
  StatusOr<NpyFile> file = NpyFile::open(writeFile(bytes));
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return {};
  std::vector<float> values(file->header().elements());
  Status status = file->readFloats(ElementType::f32, values.data());
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

std::vector<int64_t> readIntegers(const std::string &bytes) {
  StatusOr<NpyFile> file = NpyFile::open(writeFile(bytes));
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return {};
  StatusOr<std::vector<int64_t>> values = file->readIntegers();
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? *values : std::vector<int64_t>();
}

std::string refusal(const std::string &bytes) {
  StatusOr<NpyFile> file = NpyFile::open(writeFile(bytes));
  if (file.ok()) return "it was read";
  EXPECT_EQ(file.status().kind(), StatusKind::user);
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
  return file.status().message();
}

TEST(Npy, readsEveryFloatType) {
  const std::vector<double> values = {1.5, -2, 0.25, 0, 65504, -0.125};
  const std::vector<float> expected(values.begin(), values.end());
  EXPECT_EQ(readF32(npyBytes(dictionary("<f8", "(2, 3)"), bytesOf(values))), expected);
  EXPECT_EQ(readF32(npyBytes(dictionary(">f8", "(2, 3)"), bytesOf(values, true))), expected);
  EXPECT_EQ(readF32(npyBytes(dictionary("<f4", "(6,)"), bytesOf(expected))), expected);
  EXPECT_EQ(readF32(npyBytes(dictionary(">f4", "(6,)"), bytesOf(expected, true))), expected);
  const std::vector<uint16_t> halves = {0x3e00, 0xc000, 0x3400, 0, 0x7bff, 0xb000};
  EXPECT_EQ(readF32(npyBytes(dictionary("<f2", "(6,)"), bytesOf(halves))), expected);
  EXPECT_EQ(readF32(npyBytes(dictionary(">f2", "(6,)"), bytesOf(halves, true))), expected);
}

template <typename T> void checkIntegers(const std::string &type) {
  const std::vector<T> values = {std::numeric_limits<T>::min(), 0, 1, std::numeric_limits<T>::max() / 2};
  const std::vector<int64_t> expected(values.begin(), values.end());
  EXPECT_EQ(readIntegers(npyBytes(dictionary("<" + type, "(4,)"), bytesOf(values))), expected) << type;
  EXPECT_EQ(readIntegers(npyBytes(dictionary(">" + type, "(4,)"), bytesOf(values, true))), expected) << type;
  const std::vector<float> floats(values.begin(), values.end());
  EXPECT_EQ(readF32(npyBytes(dictionary("<" + type, "(4,)"), bytesOf(values))), floats) << type;
}

TEST(Npy, readsEveryIntegerType) {
  checkIntegers<int8_t>("i1"), checkIntegers<int16_t>("i2"), checkIntegers<int32_t>("i4"),
      checkIntegers<int64_t>("i8");
  checkIntegers<uint8_t>("u1"), checkIntegers<uint16_t>("u2"), checkIntegers<uint32_t>("u4");
  checkIntegers<uint64_t>("u8");
  EXPECT_THAT(readIntegers(npyBytes(dictionary("|u1", "(2,)"), "\x07\xff")), ElementsAre(7, 255));
}

TEST(Npy, integersBeyondInt64AreNamed) {
  const std::string path =
      writeFile(npyBytes(dictionary("<u8", "(3,)"), bytesOf<uint64_t>({1, 2, 9223372036854775808u})));
  StatusOr<std::vector<int64_t>> values = NpyFile::open(path)->readIntegers();
  ASSERT_FALSE(values.ok());
  EXPECT_THAT(values.status().message(), HasSubstr("found 9223372036854775808 in row 2"));
}

TEST(Npy, floatsAreNotIntegers) {
  const std::string path = writeFile(npyBytes(dictionary("<f4", "(1,)"), bytesOf<float>({1})));
  StatusOr<std::vector<int64_t>> values = NpyFile::open(path)->readIntegers();
  ASSERT_FALSE(values.ok());
  EXPECT_THAT(values.status().message(), HasSubstr("expected integers, found float32"));
}

TEST(Npy, readsFortranOrder) {
  const std::string data = bytesOf<float>({1, 4, 2, 5, 3, 6}); // columns of [[1 2 3] [4 5 6]]
  EXPECT_THAT(readF32(npyBytes(dictionary("<f4", "(2, 3)", true), data)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(readF32(npyBytes(dictionary("<f4", "(6,)", true), data)), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(readIntegers(npyBytes(dictionary("|i1", "(2, 2)", true), "\x01\x03\x02\x04")),
              ElementsAre(1, 2, 3, 4));
}

TEST(Npy, readsEveryVersionAndNumbersWithoutShape) {
  for (int version : {1, 2, 3})
    EXPECT_THAT(readF32(npyBytes(dictionary("<f4", "()"), bytesOf<float>({7}), version)), ElementsAre(7))
        << version;
}

TEST(Npy, readsArraysOfManyBlocks) {
  std::vector<double> values(700000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i);
  const std::vector<float> read = readF32(npyBytes(dictionary("<f8", "(700, 1000)"), bytesOf(values)));
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin(), values.end()));
  const std::vector<float> turned =
      readF32(npyBytes(dictionary("<f8", "(1000, 700)", true), bytesOf(values)));
  EXPECT_EQ(turned[3 * 700 + 5], 5 * 1000 + 3);
}

TEST(Npy, roundsToSixteenBits) {
  StatusOr<NpyFile> file =
      NpyFile::open(writeFile(npyBytes(dictionary("<f8", "(2,)"), bytesOf<double>({1, 0.1}))));
  std::vector<uint16_t> values(2);
  ASSERT_TRUE(file->readFloats(ElementType::bf16, values.data()).ok());
  EXPECT_THAT(values, ElementsAre(0x3f80, 0x3dcd));
  ASSERT_TRUE(file->readFloats(ElementType::f16, values.data()).ok());
  EXPECT_THAT(values, ElementsAre(0x3c00, 0x2e66));
}

TEST(Npy, refusesForeignTypes) {
  for (const char *descr :
       {"<c8", "|O", "|O8", "<U4", "|S1", "<M8", "<f16", "|b1", "<f1", "<i3", "|f4", "", "f4", "<f"})
    EXPECT_THAT(refusal(npyBytes(dictionary(descr, "(1,)"), std::string(8, '\0'))),
                HasSubstr("found elements of type"))
        << descr;
  EXPECT_THAT(refusal(npyBytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "....")),
              HasSubstr("structured"));
}

TEST(Npy, refusesLyingShapes) {
  const auto refusedShape = [](const std::string &shape) {
    return refusal(npyBytes(dictionary("<f4", shape), std::string(16, '\0')));
  };
  EXPECT_THAT(refusedShape("(1000000000000000000,)"), HasSubstr("expected 4000000000000000000 bytes"));
  EXPECT_THAT(refusedShape("(1000000000000000000, 1000)"), HasSubstr("more than 2^63"));
  EXPECT_THAT(refusedShape("(4294967296, 4294967296)"), HasSubstr("more than 2^63"));
  EXPECT_THAT(refusedShape("(100000000000000000000,)"), HasSubstr("found a larger one"));
  EXPECT_THAT(refusedShape("(-4,)"), HasSubstr("at least 1, found -4"));
  EXPECT_THAT(refusedShape("(0, 4)"), HasSubstr("at least 1, found 0"));
  EXPECT_THAT(refusedShape("(-1, -4)"), HasSubstr("at least 1"));
  EXPECT_THAT(refusedShape("(3,)"), HasSubstr("something follows the array"));
  EXPECT_THAT(refusedShape("(5,)"), HasSubstr("cut off"));
  EXPECT_THAT(refusedShape("(1, 2, 2)"), HasSubstr("at most 2 dimensions"));
  EXPECT_THAT(refusedShape("(4)"), HasSubstr("a tuple"));
  EXPECT_THAT(refusedShape("4"), HasSubstr("expected ("));
  EXPECT_THAT(refusedShape("(4.0,)"), HasSubstr("header"));
  EXPECT_THAT(refusedShape("(None,)"), HasSubstr("a size"));
}

TEST(Npy, refusesForeignHeaders) {
  EXPECT_THAT(refusal(""), HasSubstr("does not begin with"));
  EXPECT_THAT(refusal("PK\x03\x04 a zip file"), HasSubstr("does not begin with"));
  EXPECT_THAT(refusal("\x93NUMPY"), HasSubstr("cut off"));
  EXPECT_THAT(refusal(magic(4, 10) + std::string(100, ' ')), HasSubstr("found 4.0"));
  EXPECT_THAT(refusal(magic(2, 0xfffffff0u)), HasSubstr("found one of 4294967292"));
  EXPECT_THAT(refusal(magic(1, 200) + "{"), HasSubstr("cut off"));
  EXPECT_THAT(refusal(npyBytes("", "")), HasSubstr("found its end"));
  EXPECT_THAT(refusal(npyBytes("{}", "")), HasSubstr("missing"));
  EXPECT_THAT(refusal(npyBytes(dictionary("<f4", "(1,)") + "; import os", "....")),
              HasSubstr("nothing after"));
  EXPECT_THAT(refusal(npyBytes("{'descr': '<f4', 'descr': '<f4'}", "")), HasSubstr("'descr' besides"));
  EXPECT_THAT(refusal(npyBytes("{'\xc3\xa9': 1}", "")), HasSubstr("besides"));
  EXPECT_THAT(refusal(npyBytes("{'descr", "")), HasSubstr("a string that ends"));
  EXPECT_THAT(refusal(npyBytes("{'descr': '<f4', 'fortran_order': 1}", "")), HasSubstr("True or False"));
}

TEST(Npy, refusesWhatIsNotAFile) {
  const auto openError = [](const std::string &path) { return NpyFile::open(path).status().message(); };
  EXPECT_THAT(openError(scratchPath("absent.npy")), HasSubstr("No such file"));
  EXPECT_THAT(openError(testing::TempDir()), HasSubstr("a directory"));
  EXPECT_THAT(openError("/dev/zero"), HasSubstr("a device"));
  EXPECT_THAT(openError(""), HasSubstr("No such file"));
  const std::string pipe = scratchPath("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(openError(pipe), HasSubstr("pipe"));
}

TEST(Npy, readsUnicodePaths) {
  const std::string path =
      writeFile(npyBytes(dictionary("<f4", "(1,)"), bytesOf<float>({1})), "h\xc3\xb6he \xe5\xb1\xa4.npy");
  EXPECT_TRUE(NpyFile::open(path).ok());
}

TEST(Npy, fileThatShrinksIsAnError) {
  const std::string path = writeFile(npyBytes(dictionary("<f4", "(4,)"), std::string(16, '\0')));
  StatusOr<NpyFile> file = NpyFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(path.c_str(), 70), 0);
  std::vector<float> values(4);
  EXPECT_EQ(file->readFloats(ElementType::f32, values.data()).kind(), StatusKind::user);
}

/// Opens the file and reads what it offers; what matters is that nothing but a Status comes of it.
void readOrRefuse(const std::string &bytes) {
  StatusOr<NpyFile> file = NpyFile::open(writeFile(bytes));
  if (!file.ok()) return;
  ASSERT_LE(file->header().elements(), static_cast<int64_t>(bytes.size()));
  std::vector<float> values(file->header().elements());
  EXPECT_TRUE(file->readFloats(ElementType::f32, values.data()).ok());
  if (file->header().isInteger()) (void)file->readIntegers();
}

TEST(Npy, everyTruncationAndEveryByteIsReadOrRefused) {
  for (int version : {1, 2}) {
    const std::string whole = npyBytes(dictionary("<i4", "(2, 2)"), bytesOf<int32_t>({1, 2, 3, 4}), version);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("expected")) << size;
    }
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (char byte : {'\0', '\xff', '\x80', '0', '9', '-', '\'', '(', ')', ',', ' ', '>', 'O', '\n'}) {
        std::string changed = whole;
        changed[at] = byte;
        readOrRefuse(changed);
      }
  }
}

TEST(Npy, writtenHeadersAreRead) {
  for (const std::vector<int64_t> &shape :
       std::vector<std::vector<int64_t>>{{}, {3}, {2, 5}, {1000000, 1000000}}) {
    const std::string header = npyFloat32Header(shape);
    EXPECT_EQ(header.size() % 64, 0u);
    int64_t elements = 1;
    for (int64_t size : shape)
      elements *= size;
    StatusOr<NpyHeader> read = parseNpyHeader(header, static_cast<int64_t>(header.size()) + 4 * elements);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->shape, shape);
    EXPECT_EQ(read->typeName(), "float32");
    EXPECT_EQ(read->dataOffset, static_cast<int64_t>(header.size()));
  }
}

} // namespace
} // namespace tilewright
