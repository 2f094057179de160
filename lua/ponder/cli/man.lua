--- `ponder man`: prints the manual page, made from the texts and tables of --help.

local args = require "ponder.args"
local cli = require "ponder.cli"
local environment = require "ponder.environment"
local host = require "ponder.core.host"

local man = { expects = { 0, 0, "no argument" } }

man.summary = "print the manual page (ponder man | man -l -)"

man.about = [[
ponder man

Prints the manual page, ponder.1, in roff. `make install` installs it; `ponder man | man -l -` shows
it.]]

-- Escapes a text for roff.
local function escape(text)
    text = text:gsub("\\", "\\e"):gsub("%-", "\\-")
    return (("\n" .. text):gsub("\n([.'])", "\n\\&%1"):sub(2))
end

local function add_options(out, command)
    for _, section in ipairs(command.sections) do
        if section.title then
            out[#out + 1] = ".PP\n" .. escape(section.title) .. ":"
        end
        for _, name in ipairs(section.names) do
            local rule = command.rules[name]
            out[#out + 1] = (".TP\n.B %s%s\n%s"):format(escape(args.flag(name)),
                rule.value and " " .. escape(rule.value) or "", escape(rule.help or ""))
        end
    end
end

-- Adds a usage text. The synopsis, its first paragraph, and indented paragraphs keep their lines.
local function add_about(out, about)
    local first = true
    for paragraph in (about .. "\n\n"):gmatch("(.-)\n\n+") do
        if first or paragraph:find("^%s") then
            out[#out + 1] = ".PP\n.nf\n" .. escape(paragraph) .. "\n.fi"
        else
            out[#out + 1] = ".PP\n" .. escape(paragraph)
        end
        first = false
    end
end

local SYNOPSIS = [[
.SH SYNOPSIS
.B ponder
.I COMMAND
[\fIARG\fR...]
.br
.B ponder
.I FILE
[\fIARG\fR...]
.br
.B ponder
\-e
.I CODE
[\fIARG\fR...] ]]

local REST = [[
.SH FILES
.TP
.B $XDG_CONFIG_HOME/ponder/config.lua
Names for models, and options for all calls or those of one provider.
.TP
.B ./prompts/
Prompt files that replace the built\-in ones, after ponder trust ./prompts.
.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
A script raised an error, or a run failed.
.TP
.B 2
The command line was wrong.
.TP
.B 130
Ctrl\-C.]]

local function page()
    local out = { (".TH PONDER 1 \"\" \"ponder %s\" \"User Commands\""):format(host.version),
        ".SH NAME\nponder \\- search policies and reasoning strategies for language models",
        SYNOPSIS, ".SH DESCRIPTION" }
    add_about(out, cli.help())
    out[#out + 1] = ".SH COMMANDS"
    for _, command in ipairs(cli.commands()) do
        out[#out + 1] = ".SS " .. command.name
        add_about(out, command.about)
        add_options(out, command)
    end
    out[#out + 1] = ".SH ENVIRONMENT"
    for _, variable in ipairs(environment.LIST) do
        out[#out + 1] = (".TP\n.B %s\n%s"):format(variable.name, escape(variable.about))
    end
    out[#out + 1] = REST
    return table.concat(out, "\n") .. "\n"
end

---See ponder.cli.
function man.run()
    io.write(page())
    return 0
end

return man
