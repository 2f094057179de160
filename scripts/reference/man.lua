--- Makes the manual page, in roff, from the texts and tables of --help.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local environment = require "ponder.base.environment"
local host = require "ponder.core.host"
local statuses = require "ponder.cli.shared.statuses"

-- Escapes a text for roff.
local function escape(text)
    text = text:gsub("\\", "\\e"):gsub("%-", "\\-")
    return (("\n" .. text):gsub("\n([.'])", "\n\\&%1"):sub(2))
end

-- Adds a list of terms and their descriptions; one with a width, in columns, is without gaps.
local function add_list(out, title, rows, width)
    out[#out + 1] = title and ".PP\n" .. escape(title) .. ":" or nil
    out[#out + 1] = width and ".PD 0" or nil
    for _, row in ipairs(rows) do
        out[#out + 1] = (".TP %s\n.B %s\n%s"):format(width or "", escape(row[1]),
            escape(row[2]))
    end
    out[#out + 1] = width and ".PD" or nil
end

local function add_options(out, command)
    for _, section in ipairs(command.sections) do
        local rows = {}
        for i, name in ipairs(section.names) do
            local rule = command.rules[name]
            rows[i] = { args.flag(name) .. (rule.value and " " .. rule.value or ""),
                rule.help or "" }
        end
        add_list(out, section.title, rows)
    end
end

-- A paragraph of lines `  TERM  DESCRIPTION`, each perhaps continued by lines indented deeper, as
-- rows; nil if it is something else.
local function rows_of(paragraph)
    local rows, widest = {}, 0
    for line in paragraph:gmatch("[^\n]+") do
        local term, about = line:match("^  (%S.-)%s%s+(%S.*)$")
        local more = line:match("^      +(%S.*)$")
        if term then
            rows[#rows + 1] = { term, about }
            widest = math.max(widest, #term)
        elseif more and rows[1] then
            rows[#rows][2] = rows[#rows][2] .. "\n" .. more
        else
            return nil
        end
    end
    return rows, widest + 2
end

-- Adds a usage text. The synopsis, its first paragraph, and code, which is indented, keep their
-- lines.
local function add_about(out, about)
    local first = true
    for paragraph in (about .. "\n\n"):gmatch("(.-)\n\n+") do
        local rows, width = rows_of(paragraph)
        if rows and not first then
            out[#out + 1] = ".PP"
            add_list(out, nil, rows, width)
        elseif first or paragraph:find("^%s") then
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
[\fIARG\fR...]
]]

local REST = [[
.SH FILES
.TP
.B $XDG_CONFIG_HOME/ponder/config.lua
Names for models, and options for all calls or those of one provider.
.TP
.B ./prompts/
Prompt files that replace the built\-in ones, after ponder trust ./prompts.
.SH EXIT STATUS]]

local WIDEST = 24 -- of the commands

---@param commands table[] of scripts/reference/main.lua
---@return string
return function(commands)
    local out = { (".TH PONDER 1 \"\" \"ponder %s\" \"User Commands\"\n.nh\n.ad l")
        :format(host.version),
        ".SH NAME\nponder \\- search policies and reasoning strategies for language models",
        SYNOPSIS .. ".SH DESCRIPTION" }
    local title, lists, rest = cli.overview()
    out[#out + 1] = escape(title)
    for _, list in ipairs(lists) do
        add_list(out, list.title, list.rows, WIDEST)
    end
    out[#out + 1] = ".PP\n" .. escape(rest)
    out[#out + 1] = ".SH COMMANDS"
    for _, command in ipairs(commands) do
        out[#out + 1] = ".SS " .. command.name
        add_about(out, command.about)
        add_options(out, command)
    end
    out[#out + 1] = ".SH ENVIRONMENT"
    local rows = {}
    for i, variable in ipairs(environment.LIST) do
        rows[i] = { variable.name, variable.about }
    end
    add_list(out, nil, rows)
    out[#out + 1] = REST
    rows = {}
    for i, status in ipairs(statuses) do
        rows[i] = { tostring(status[1]), status[3] }
    end
    add_list(out, nil, rows)
    return table.concat(out, "\n") .. "\n"
end
