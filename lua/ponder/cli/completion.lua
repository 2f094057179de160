--- `ponder completion bash|zsh|fish`: completion of command lines, from the tables of --help. The
--- script asks `ponder completion SHELL -- WORD...` what may replace the last word; status 0 says
--- that a file may, too.

local args = require "ponder.args"
local cli = require "ponder.cli"
local kept = require "ponder.log.kept"
local model_name = require "ponder.model.name"
local options = require "ponder.options"
local prices = require "ponder.model.prices"

local completion = { words = { "bash", "fish", "zsh" } }

completion.summary = "print a script that completes command lines (bash, zsh, fish)"

completion.about = [[
ponder completion bash|zsh|fish

Prints a script that completes ponder's commands and options:

  bash, zsh   source <(ponder completion bash), in ~/.bashrc or ~/.zshrc
  fish        ponder completion fish > ~/.config/fish/completions/ponder.fish

It also completes models (in config.lua and the list of prices), logged runs, the roles of --models
and the values of options.]]

-------------------------------------------------------------------------------
-- The scripts, and how each takes an offer

local SCRIPTS = {
    bash = [[
# bash completion of ponder
_ponder() {
    local line=${COMP_LINE:0:COMP_POINT} typed out
    read -ra typed <<<"$line"
    case "$line" in *' ') typed+=('') ;; esac
    out=$("${typed[0]}" completion bash -- "${typed[@]:1}" 2>/dev/null) ||
        compopt +o default 2>/dev/null
    COMPREPLY=()
    [ -z "$out" ] || mapfile -t COMPREPLY <<<"$out"
}
complete -o default -F _ponder ponder
]],
    zsh = [[
#compdef ponder
_ponder() {
    local out take_files=false
    out=$("$words[1]" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null) && take_files=true
    local -a offers=("${(@f)out}")
    [ -z "$out" ] || _describe offer offers
    if $take_files; then compset -P '--*='; _files; fi
}
if [ "$funcstack[1]" = _ponder ]; then _ponder "$@"; else compdef _ponder ponder; fi
]],
    fish = [[
# fish completion of ponder
function __ponder_offers
    set -l typed (commandline -opc) (commandline -ct)
    ponder completion fish -- $typed[2..] 2>/dev/null
    or return
    set -l flag (string match -r -- '^--[^=]*=' $typed[-1])
    __fish_complete_path (string replace -- "$flag" '' $typed[-1]) | string replace -r -- ^ "$flag"
end
complete -c ponder -f -a '(__ponder_offers)'
]],
}

local FORMS = {}

-- Bash splits words at : and =, and replaces only the part behind.
function FORMS.bash(word, _, typed)
    return word:sub(#(typed:match "^.*[:=]" or "") + 1)
end

function FORMS.zsh(word, about)
    return word:gsub("[\\:]", "\\%0") .. (about ~= "" and ":" .. about or "")
end

function FORMS.fish(word, about)
    return word .. "\t" .. about
end

-------------------------------------------------------------------------------
-- What may replace a word

-- Options whose values are models, and commands whose operands are runs.
local MODELS = { model = true, allow_model = true }
local RUNS = { show = true, resume = true, replay = true, fork = true, diff = true, export = true,
    view = true }

-- Aliases in config.lua and models with a known price; asks no server.
local function models()
    local ok, config = pcall(model_name.load_config, os.getenv)
    local found = options.names(ok and config.aliases or {})
    for _, name in ipairs(options.names(prices)) do
        found[#found + 1] = not name:find("[*/]") and name or nil
    end
    return found
end

local function roles(command)
    local ok, library = pcall(require, "ponder.strategy." .. command)
    local words = {}
    for i, role in ipairs(ok and library.roles and library.roles() or {}) do
        words[i] = role .. "="
    end
    return words
end

local function flags_of(command)
    local list = { { "--help", "show help" } }
    for name, rule in pairs(command.rules) do
        list[#list + 1] = { args.flag(name), rule.help or "" }
    end
    return list
end

local function operands_of(name, command)
    local list = table.move(command.words, 1, #command.words, 1, {})
    for _, run in ipairs(RUNS[name] and kept.list() or {}) do
        list[#list + 1] = run.name
    end
    for _, other in ipairs(name == "help" and cli.commands() or {}) do
        list[#list + 1] = { other.name, other.summary }
    end
    if name == "doc" then
        list = require("ponder.cli.doc").names()
    end
    return list, command.files
end

local function command_names()
    local list = { { "--help", "show help" }, { "--version", "print the version" } }
    for _, command in ipairs(cli.commands()) do
        list[#list + 1] = { command.name, command.summary }
    end
    return list, true
end

-- What may replace the last word, as words or {word, about}; whether a file may; and what comes
-- before each.
local function offers(words)
    local last, before = words[#words], words[#words - 1]
    local command = before and cli.described(words[1])
    if not before then
        return command_names()
    elseif not command then
        return {}, true -- the arguments of a script
    end
    local flag = last:match "^(%-%-[^=]+)=" or before
    for name, rule in pairs(command.rules) do
        if rule.value and rule.implied == nil and args.flag(name) == flag then
            local values = rule.enum or MODELS[name] and models()
                or name == "models" and roles(words[1]) or {}
            return values, rule.files, flag ~= before and flag .. "=" or ""
        end
    end
    if last:sub(1, 1) == "-" then
        return flags_of(command)
    end
    return operands_of(words[1], command)
end

local function answer(shell, words)
    local last, lines = words[#words], {}
    local list, files, front = offers(words)
    for _, offer in ipairs(list) do
        local word, about = offer, ""
        if type(offer) == "table" then
            word, about = offer[1], offer[2]
        end
        word = (front or "") .. word
        if word:sub(1, #last) == last then
            lines[#lines + 1] = FORMS[shell](word, about, last)
        end
    end
    table.sort(lines)
    io.write(table.concat(lines, "\n"), lines[1] and "\n" or "")
    return files and 0 or 1
end

---See ponder.cli.
function completion.run(_, operands, list)
    local shell = operands[1]
    if not SCRIPTS[shell] or operands[2] and list[2] ~= "--" then
        return nil, "expected bash, zsh or fish"
    elseif operands[2] then
        return answer(shell, table.move(operands, 2, #operands, 1, {}))
    end
    io.write(SCRIPTS[shell])
    return 0
end

return completion
