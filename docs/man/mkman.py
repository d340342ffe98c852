#!/usr/bin/env python3
"""Turn the manual's Markdown into man pages.

    mkman.py --out FOLDER PAGE.md...

A page NAME.SECTION.md becomes FOLDER/NAME.SECTION.  Only the Markdown that the
pages use is known, and a line that is not is an error, so that nothing is
dropped in silence:

    # name(section) - summary      the first line
    ## HEADING                     a section
    paragraph                      with **bold**, *italic*, `literal`
    - item                         a list; goes on with two blanks
    **-n**                         a term, when the next line begins with ":"
    :   what it means              its meaning; goes on with four blanks
        literal text               after an empty line: an example
"""

import argparse
import os
import re
import sys

TITLE = re.compile(r"^# ([\w.-]+)\((\d)\) - (.+)$")


class Bad(Exception):
    pass


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return text.replace("'", "\\(aq").replace("`", "\\(ga")


def inline(text):
    """One paragraph's text with its emphasis."""
    out = []
    at = 0
    pattern = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\*([^*\s][^*]*)\*"
                         r"|\[([^]]+)\]\([^)]*\)")
    for match in pattern.finditer(text):
        out.append(escape(text[at:match.start()]))
        literal, bold, italic, link = match.groups()
        if literal is not None:
            out.append("\\fB" + escape(literal) + "\\fR")
        elif bold is not None:
            out.append("\\fB" + escape(bold) + "\\fR")
        elif italic is not None:
            out.append("\\fI" + escape(italic) + "\\fR")
        else:
            out.append(escape(link))
        at = match.end()
    out.append(escape(text[at:]))
    return protect("".join(out))


def protect(line):
    """A line that begins with a dot or quote would be a request."""
    return "\\&" + line if line[:1] in (".", "'") else line


class Page:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as source:
            self.lines = source.read().split("\n")
        self.at = 0
        self.out = []
        self.after_head = False  # the next paragraph needs no .PP

    def peek(self, ahead=0):
        at = self.at + ahead
        return self.lines[at] if at < len(self.lines) else ""

    def more(self):
        return self.at < len(self.lines)

    def take_while(self, test):
        taken = []
        while self.more() and test(self.peek()):
            taken.append(self.lines[self.at])
            self.at += 1
        return taken

    def title(self):
        match = TITLE.match(self.peek())
        if not match:
            raise Bad("the first line is not '# name(section) - summary'")
        name, section, summary = match.groups()
        if os.path.basename(self.path) != "%s.%s.md" % (name, section):
            raise Bad("the title names another page")
        self.at += 1
        kind = {"1": "User Commands", "3": "Library Functions"}
        self.out.append('.TH %s %s "" holdfast "%s"'
                        % (escape(name.upper()), section,
                           kind.get(section, "Holdfast")))
        self.out.append(".SH NAME")
        self.out.append("%s \\- %s" % (escape(name), escape(summary)))

    def paragraph(self, request=".PP"):
        lines = self.take_while(lambda l: l.strip() and not l.startswith("#"))
        if request and not self.after_head:
            self.out.append(request)
        self.out.append(inline(" ".join(line.strip() for line in lines)))

    def example(self):
        lines = self.take_while(lambda l: l.startswith("    ") or not l.strip())
        while lines and not lines[-1].strip():
            lines.pop()
        if not self.after_head:
            self.out.append(".PP")
        self.out.append(".RS 4")
        self.out.append(".nf")
        self.out.extend(protect(escape(line[4:])) for line in lines)
        self.out.append(".fi")
        self.out.append(".RE")

    def items(self):
        while self.peek().startswith("- "):
            first = self.peek()[2:]
            self.at += 1
            rest = self.take_while(
                lambda l: l.startswith("  ") and l.strip() != "")
            self.out.append(".IP \\(bu 2")
            self.out.append(inline(" ".join([first] + [
                line.strip() for line in rest])))

    def term(self):
        self.out.append(".TP")
        self.out.append(inline(self.peek()))
        self.at += 1
        first = self.peek()[1:].strip()
        self.at += 1
        rest = self.take_while(lambda l: l.startswith("    "))
        self.out.append(inline(" ".join([first] + [
            line.strip() for line in rest])))

    def block(self):
        line = self.peek()
        if not line.strip():
            self.at += 1
            return
        if line.startswith("## "):
            self.out.append(".SH %s" % escape(line[3:].upper()))
            self.at += 1
            self.after_head = True
            return
        if line.startswith("#") or line.startswith("|") \
                or line.startswith("```"):
            raise Bad("line %d: '%s' is Markdown that the pages do not use"
                      % (self.at + 1, line))
        if line.startswith("    "):
            self.example()
        elif line.startswith("- "):
            self.items()
        elif self.peek(1).startswith(":"):
            self.term()
        else:
            self.paragraph()
        self.after_head = False

    def make(self):
        self.title()
        while self.more():
            self.block()
        return "\n".join(self.out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("pages", nargs="+")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for path in args.pages:
        name = os.path.basename(path)
        if not re.match(r"^[\w-]+\.\d\.md$", name):
            continue  # a page about the pages
        try:
            text = Page(path).make()
        except Bad as why:
            sys.exit("mkman: %s: %s" % (path, why))
        with open(os.path.join(args.out, name[:-3]), "w",
                  encoding="utf-8") as page:
            page.write(text)


if __name__ == "__main__":
    main()
