// Pickles: values are read as data, and whatever would run code, or is damaged, is refused.
#include <gtest/gtest.h>

#include "convert/torch/pickle.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;
using namespace std::string_literals;

Pickle read(const std::string& bytes) { return Pickle({std::as_bytes(std::span(bytes)), "test.pt"}); }

std::string error_of(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const UserError& error) {
    return error.what();
  } catch (const Failure& error) {
    return error.what();
  }
  return "";
}

TEST(Pickle, ReadsNumbersTextsAndContainers) {
  // {'a': [1, -2, 70000, 2.5, True, None], 'b': ('x', b'y')}, protocol 4
  const std::string bytes =
      "\x80\x04}(\x8c\x01"
      "a](K\x01J\xfe\xff\xff\xffJ\x70\x11\x01\x00G\x40\x04\x00\x00\x00\x00\x00\x00\x88Ne\x8c\x01"
      "b\x8c\x01xC\x01y\x86u."s;
  const Pickle pickle = read(bytes);
  const PickleValue& list = *pickle.root().find("a");
  ASSERT_EQ(list.items.size(), 6u);
  EXPECT_EQ(list.items[0]->integer, 1);
  EXPECT_EQ(list.items[1]->integer, -2);
  EXPECT_EQ(list.items[2]->integer, 70000);
  EXPECT_EQ(list.items[3]->real, 2.5);
  EXPECT_TRUE(list.items[4]->is(Kind::boolean));
  EXPECT_TRUE(list.items[5]->is(Kind::none));
  EXPECT_EQ(pickle.root().find("b")->items[1]->text, "y");
  EXPECT_EQ(pickle.root().find("c"), nullptr);
  EXPECT_EQ(pickle.end(), bytes.size());
}

TEST(Pickle, SharesWhatIsSharedEvenInACircle) {
  const Pickle twice = read(
      "\x80\x02]q\x00(}q\x01h\x01"
      "e."s);
  EXPECT_EQ(twice.root().items[0], twice.root().items[1]);
  const Pickle circle = read(
      "\x80\x02]q\x00h\x00"
      "a."s);
  EXPECT_EQ(circle.root().items[0], &circle.root());
}

TEST(Pickle, KeepsObjectsAsData) {
  // argparse.Namespace with {'n': 3} for its attributes, and an OrderedDict with an item
  const Pickle pickle = read(
      "\x80\x02"
      "cargparse\nNamespace\n)\x81}X\x01\x00\x00\x00nK\x03sb."s);
  EXPECT_TRUE(pickle.root().is_object_of("argparse.Namespace"));
  EXPECT_EQ(pickle.root().find("n")->integer, 3);
  EXPECT_EQ(read("\x80\x02"
                 "ccollections\nOrderedDict\n)RX\x01\x00\x00\x00kK\x05s."s)
                .root()
                .find("k")
                ->integer,
            5);
}

TEST(Pickle, RefusesClassesThatCheckpointsDoNotHave) {
  EXPECT_NE(error_of("\x80\x02"
                     "cos\nsystem\nX\x02\x00\x00\x00ls\x85R."s)
                .find("\"os.system\""),
            std::string::npos);
  EXPECT_NE(error_of("\x80\x04\x8c\x08"
                     "builtins\x8c\x04"
                     "eval\x93."s)
                .find("\"builtins.eval\""),
            std::string::npos);
  EXPECT_NE(error_of("\x80\x02"
                     "cposix\nsystem\n."s)
                .find("posix.system"),
            std::string::npos);
  EXPECT_NE(error_of("\x80\x02"
                     "ctorch.hub\nload\n."s)
                .find("torch.hub.load"),
            std::string::npos);
  EXPECT_NE(error_of("\x80\x02"
                     "cnumpy\nload\n."s)
                .find("numpy.load"),
            std::string::npos);
  EXPECT_NE(error_of("\x80\x02"
                     "cbuiltins\ngetattr\n."s)
                .find("builtins.getattr"),
            std::string::npos);
}

TEST(Pickle, RefusesOtherOpcodesWithTheirNumbers) {
  for (const char opcode : {'i', 'o', '\x82', '\x83', '\x84', 'P', '2', 'S', 'V', 'I', 'L', 'F', '\x97', '\x98'}) {
    const std::string error = error_of("\x80\x02"s + opcode + "."s);
    EXPECT_NE(error.find(fmt::format("opcode 0x{:02x}", static_cast<uint8_t>(opcode))), std::string::npos) << error;
  }
}

TEST(Pickle, IsDamagedWhereverItEnds) {
  const std::string whole =
      "\x80\x04}(\x8c\x01"
      "a](K\x01K\x02"
      "e\x8c\x01"
      "b\x8c\x01x\x85u."s;
  ASSERT_EQ(error_of(whole), "");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(error_of(whole.substr(0, length)).find("damaged"), std::string::npos) << length;
}

TEST(Pickle, RefusesNonsense) {
  const std::string bad[] = {
      "\x80\x02R."s,        // a call without anything
      "\x80\x02)b."s,       // attributes of a tuple without state
      "\x80\x02K\x01)R."s,  // a number is called
      "\x80\x02h\x07."s,    // nothing was kept
      "\x80\x02t."s,        // no mark
      "\x80\x02(K\x01"
      "d."s,  // a key without a value
      "\x80\x02}K\x01"
      "a."s,  // an item of a list is added to a dict
      "\x80\x02X\xff\xff\xff\xff"
      "abc."s,  // a text longer than the file
      "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
      "."s,  // and one longer than any memory
      "\x80\x02\x8b\xff\xff\xff\x7f"
      "."s,           // a number of 2 GiB
      "\x80\x09N."s,  // a protocol of the future
  };
  for (const std::string& bytes : bad) EXPECT_NE(error_of(bytes).find("damaged"), std::string::npos) << error_of(bytes);
}

// Values hold what the file gives them and no more: a million copies of a tuple of a thousand would be 8 GB.
TEST(Pickle, CopiesOfArgumentsAreLimited) {
  std::string bytes =
      "\x80\x02"
      "ccollections\nOrderedDict\nq\x00("s;
  bytes += std::string(100'000, 'N') + "tq\x01" + "0";
  bytes += "0]("s;
  for (int i = 0; i < 1000; ++i) bytes += "h\x00h\x01R"s;
  bytes += "e.";
  EXPECT_NE(error_of(bytes).find("arguments"), std::string::npos) << error_of(bytes);
}

}  // namespace
}  // namespace trireme
