#!/usr/bin/env python3
"""Writes recipes/demo-text/tales.txt, the text that the demo learns: short tales of a harbour town.

Each tale is put together from sentences below, with the same hero, helper, place and thing from its first line to its last, so that
a model of a million parameters can learn to tell new ones within two minutes. The same seed gives the same file.

    scripts/make_tales.py recipes/demo-text/tales.txt
"""

import random
import sys

TALES = 420
SEED = 5

HEROES = [("Mara", "she", "her"), ("Tom", "he", "his"), ("Ines", "she", "her"), ("Piet", "he", "his"), ("Lena", "she", "her"),
          ("Oskar", "he", "his"), ("Nora", "she", "her"), ("Emil", "he", "his"), ("Juna", "she", "her"), ("Bruno", "he", "his")]
TRADES = ["a young sailor", "a rope maker", "a baker of good bread", "a fisher", "a keeper of lamps", "a boat builder",
          "a weaver of sails", "a teller of stories", "a smith with strong arms", "a maker of clocks"]
PLACES = ["in a small house by the harbour", "on the hill above the sea", "beside the old mill", "at the end of the long pier",
          "in a red boat that never sailed", "between the market and the river", "under the tall lighthouse",
          "in a street full of cats"]
HELPERS = ["a grey gull", "an old turtle", "a clever fox", "a small brown mouse", "a white goat", "a wise crow", "a shy seal",
           "a lazy cat"]
THINGS = ["a silver key", "a green bottle", "a map of an island", "a golden coin", "a broken compass", "a blue lantern",
          "a box without a lid", "a letter with no name", "a wooden whistle", "a small brass bell"]
FINDS = ["in the sand", "under a stone", "at the bottom of the boat", "in a basket of fish", "behind the door", "in the rain",
         "on the last step of the stairs", "among the nets"]
TIMES = ["One morning", "One evening", "One cold night", "On the first day of spring", "After the great storm",
         "When the fog came in", "On a bright summer day", "Late in the autumn"]
WISHES = ["to see the far side of the sea", "to build a boat of {own} own", "to learn the song of the wind",
          "to find the way to the silent island", "to hear a story that nobody had told", "to sail farther than anyone before",
          "to know what the stars were saying", "to light the whole harbour with one lamp"]
TROUBLES = [("the wind grew strong and the waves grew high", "the wind grew quiet and the sea lay still"),
            ("the fog was so thick that nobody could see the shore", "the fog opened like a curtain"),
            ("the rope broke and the boat began to drift", "the boat came slowly back to the pier"),
            ("the light in the tower went out", "the light in the tower shone again"),
            ("the river rose and took the little bridge away", "the river went back to its bed"),
            ("the snow covered every road", "the snow began to melt"),
            ("the nets came up empty for seven days", "the nets were full again"),
            ("the clock of the town stood still", "the clock of the town struck noon")]
WORDS = ["Do not hurry, for the sea has time", "What you share will be more in the morning", "A small light is still a light",
         "Pull together, or do not pull at all", "The longest way begins at your own door", "Listen first, and then speak",
         "A knot that is tied with care will hold", "Even the tide comes back"]
GIFTS = ["a loaf of warm bread", "a cup of tea with honey", "half of a cake", "a pair of dry socks", "a bowl of hot soup",
         "a handful of nuts", "a song", "a good story"]
ENDINGS = ["From that day on {hero} and {helper} were friends.",
           "And every evening after that {hero} told the story to {helper}, and {helper} never grew tired of it.",
           "{Hero} hung {thing} above the door, and there it hangs to this day.",
           "{Hero} laughed, and {helper} laughed too, and the whole harbour heard it.",
           "That night {hero} slept well, and the sea sang until morning.",
           "If you pass that way, knock at the door, and {hero} will tell you the rest."]


def known(name):
    """The second time something is named: "a grey gull" becomes "the grey gull"."""
    return "the " + name.split(" ", 1)[1]


def tale(draw):
    hero, he, own = draw.choice(HEROES)
    helper, thing = draw.choice(HELPERS), draw.choice(THINGS)
    trouble, relief = draw.choice(TROUBLES)
    gift, word = draw.choice(GIFTS), draw.choice(WORDS)
    wish = draw.choice(WISHES).format(own=own)
    friend, treasure = known(helper), known(thing)
    lines = [draw.choice([f"Once upon a time there was {draw.choice(TRADES)} named {hero}, who lived {draw.choice(PLACES)}.",
                          f"{hero} was {draw.choice(TRADES)} and lived {draw.choice(PLACES)}.",
                          f"Long ago, {draw.choice(PLACES)}, there lived {draw.choice(TRADES)} whose name was {hero}."])]
    lines.append(draw.choice([f"More than anything else {he} wanted {wish}.",
                              f"All day long {he} worked, and all night long {he} dreamed of one thing: {wish}.",
                              f"Everyone in the town knew that {hero} wanted {wish}."]))
    lines.append(draw.choice([f"{draw.choice(TIMES)} {he} found {thing} {draw.choice(FINDS)}.",
                              f"{draw.choice(TIMES)} {he} went out early and found {thing} {draw.choice(FINDS)}."]))
    lines.append(draw.choice([f"\"What is that?\" asked {helper} that came by.", f"Then {helper} came by and asked, \"What is that?\"",
                              f"Nobody saw it but {helper}, and it asked, \"Where did you find that?\""]))
    lines.append(draw.choice([f"\"I do not know,\" said {hero}, \"but it must be worth something.\"",
                              f"\"It is {thing},\" said {hero}, \"and I will keep it until its owner comes.\"",
                              f"{hero} showed {friend} what it was, and they sat down and looked at it together."]))
    lines.append(draw.choice([f"But that same night {trouble}.", f"Before the day was over, {trouble}.", f"Then {trouble}."]))
    lines.append(draw.choice([f"\"{word},\" said {friend}.", f"{hero} was afraid, but {friend} said, \"{word}.\"",
                              f"\"What shall we do?\" asked {hero}. \"{word},\" said {friend}."]))
    lines.append(draw.choice([f"So {he} took {treasure} and held it up high, and {relief}.",
                              f"So they waited and watched, and when the sun came up, {relief}.",
                              f"So {he} called the neighbours, and all of them helped, and at last {relief}."]))
    lines.append(draw.choice([f"{hero} thanked {friend} and gave it {gift}.",
                              f"\"Thank you,\" said {hero}, and {he} gave {friend} {gift}."]))
    lines.append(draw.choice(ENDINGS).format(hero=hero, Hero=hero, helper=friend, thing=treasure))
    return " ".join(lines)


def main():
    draw = random.Random(SEED)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n\n".join(tale(draw) for _ in range(TALES)) + "\n")


if __name__ == "__main__":
    main()
