--- `ponder completion bash|zsh|fish`: completion of command lines, from the tables of --help, which
--- scripts/reference/main.lua collects when ponder is built. The script asks `ponder completion
--- SHELL -- WORD...` what may replace the last word; status 0 says that a file may, too.

local kept = require "ponder.run.log.retention"
local model_name = require "ponder.model.name"
local options = require "ponder.base.options"
local prices = require "ponder.model.prices"
local render = require "ponder.show.reference.render"

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
local MODELS = { ["--model"] = true, ["--allow-model"] = true }
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

-- What may replace the last word, as words or {word, about}; whether a file may; and what comes
-- before each.
local function offers(words)
    local last, before = words[#words], words[#words - 1]
    local commands = render.read("completion")
    local command = before and commands[words[1]]
    local list = {}
    if not before or words[1] == "help" then
        for name, other in pairs(commands) do
            list[#list + 1] = { name, other.summary }
        end
        if not before then
            table.move({ { "--help", "show help" }, { "--version", "print the version" } }, 1, 2,
                #list + 1, list)
            return list, true
        end
    elseif not command then
        return {}, true -- the arguments of a script
    end
    local flag = last:match "^(%-%-[^=]+)=" or before
    local known = command.flags[flag]
    if known and known.needs_value then
        local values = known.values or MODELS[flag] and models() or {}
        return values, known.files, flag ~= before and flag .. "=" or ""
    elseif last:sub(1, 1) == "-" then
        list = { { "--help", "show help" } }
        for name, other in pairs(command.flags) do
            list[#list + 1] = { name, other.about }
        end
        return list
    end
    table.move(command.words, 1, #command.words, #list + 1, list)
    for _, run in ipairs(RUNS[words[1]] and kept.list() or {}) do
        list[#list + 1] = run.name
    end
    return list, command.files
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
