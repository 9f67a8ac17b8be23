// Templates and filters of tasks. What Python's str and re do with the same texts was found by running them.
#include "evaluate/text_template.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "evaluate/python_literal.h"
#include "evaluate/python_text.h"

namespace trireme {
namespace {

const Document kDocument = Document::parse(
    R"({"goal": "keep bread warm", "n": 3, "yes": true, "none": null, "question": {"stem": "Why?", "choices": [{"text": "a"}, {"text": "b"}]},
        "sentence": "The lamp did not fit because the _ was _ large. ", "list": ["x", "y"]})");

std::string fill(const std::string& text) { return TextTemplate("task.yaml: doc_to_text", text).fill(kDocument); }

template <class Error>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TextTemplate, FillsInFieldsAndFilters) {
  EXPECT_EQ(fill("Question: {{goal}}\nAnswer:"), "Question: keep bread warm\nAnswer:");
  EXPECT_EQ(fill("{{ n }} {{yes}} {{question.stem}} {{question.choices.1.text}}{{list.0}}"), "3 true Why? bx");
  EXPECT_EQ(fill("{{sentence|before('_')}}|{{sentence|after('_')|strip}}"), "The lamp did not fit because the |was _ large.");
  EXPECT_EQ(fill("{{sentence | after_last(\"_\") | strip | capitalize}}"), "Large.");
  EXPECT_EQ(fill("{ {goal} } }}"), "{ {goal} } }}") << "single braces mean nothing";
  EXPECT_EQ(field_texts(kDocument, "question.choices[].text"), (std::vector<std::string>{"a", "b"}));
}

TEST(TextTemplate, RefusesWhatIsNotAField) {
  for (const char* text : {"{{goal", "{{text.split(' ')[:-1]}}", "{{}}", "{{goal|upper}}", "{{goal|before}}",
                           "{{goal|before(x)}}", "{{goal|before('')}}", "{{goal strip}}"})
    EXPECT_TRUE(
        message_of<UserError>([&] { TextTemplate("task.yaml: doc_to_text", text); }).starts_with("task.yaml: doc_to_text: "))
        << text;
  EXPECT_EQ(message_of<UserError>([] { TextTemplate("t", "{{goal|stripp}}"); }),
            "t: filter stripp is not known; did you mean strip?; use strip, capitalize, replace, before, after, before_last, "
            "after_last, remove_between, strip_between");
}

TEST(TextTemplate, SaysWhichFieldADocumentLacks) {
  EXPECT_EQ(message_of<WrongDocument>([] { fill("{{gaol}}"); }),
            "there is no field gaol; it has goal, n, yes, none, question, sentence, list");
  EXPECT_EQ(message_of<WrongDocument>([] { fill("{{list}}"); }), "field list is not a text or a number");
  EXPECT_EQ(message_of<WrongDocument>([] { fill("{{none}}"); }), "field none is not a text or a number");
  EXPECT_EQ(message_of<WrongDocument>([] { field_texts(kDocument, "goal"); }), "field goal is not a list");
  EXPECT_EQ(message_of<WrongDocument>([] { field_texts(kDocument, "list.9[].x"); }).substr(0, 24), "there is no field list.9");
}

TEST(PythonText, TreatsWhiteSpaceAsPythonDoes) {
  EXPECT_EQ(python_strip("\u00a0\t a b\u3000\x1c\n"), "a b");
  EXPECT_EQ(python_rstrip("a \u2003"), "a");
  EXPECT_EQ(python_strip("\u200b a"), "\u200b a") << "a space of no width is none";
  EXPECT_EQ(python_word_count(""), 1);
  EXPECT_EQ(python_word_count(" a\u00a0b\n\nc "), 5);
  EXPECT_EQ(python_length("né€\U0001F600"), 4);
}

TEST(PythonText, CapitalizesAsPythonDoes) {
  EXPECT_EQ(python_capitalize("the Old MAN"), "The old man");
  EXPECT_EQ(python_capitalize("élan VITAL ÀÉÖØ"), "Élan vital àéöø");
  EXPECT_EQ(python_capitalize("ŁÓDŹ жизнь ЖИЗНЬ ΣΟΦΙΑ"), "Łódź жизнь жизнь σοφια");
  EXPECT_EQ(python_capitalize(""), "");
}

// re.sub of "\[.*?\]" by "", and of "\(\s*([^\)]*?)\s*\)" by "(\1)".
TEST(PythonText, FindsTheShortestPairs) {
  EXPECT_EQ(remove_between("a [b] c [d [e] f] [g\n] h]", '[', ']'), "a  c  f] [g\n] h]");
  EXPECT_EQ(remove_between("[", '[', ']'), "[");
  EXPECT_EQ(strip_between("( a b ) ( c\n\n) (( d ) ) ( e", '(', ')'), "(a b) (c) (( d) ) ( e");
  EXPECT_EQ(strip_between("\" a \" b \" c \" d \" e", '"', '"'), "\"a\" b \"c\" d \" e");
}

TEST(PythonLiteral, ReadsWhatReprWrites) {
  EXPECT_EQ(
      read_python_literal(R"([{'question': "it's", 'n': -2, 'options': ('a\'b', "c\n\xe9\u20ac"), 'x': None}, True, 1.5,])"),
      Document::parse(
          "[{\"question\": \"it's\", \"n\": -2, \"options\": [\"a'b\", \"c\\n\u00e9\u20ac\"], \"x\": null}, true, 1.5]"));
  EXPECT_EQ(read_python_literal(R"(["\ud83d\ude00"])"), Document::parse("[\"\U0001F600\"]"));
  for (const std::string& text : {std::string("["), std::string("['a"), std::string("{1: 2}"), std::string("__import__('os')"),
                                  std::string("[] []"), std::string("'\\ud800'"), std::string(100, '[')})
    EXPECT_NE(message_of<WrongDocument>([&] { read_python_literal(text); }), "no error") << text;
}

}  // namespace
}  // namespace trireme
