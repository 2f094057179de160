--- `ponder completion bash|zsh|fish`: completion of command lines, from the tables of --help.
---
--- The scripts ask for other values when a key is pressed: `--values models` prints the configured
--- and priced models, `--values runs` the logged runs.

local args = require "ponder.args"
local cli = require "ponder.cli"
local kept = require "ponder.log.kept"
local model_name = require "ponder.model.name"
local prices = require "ponder.model.prices"
local options = require "ponder.options"

local SHELLS = { "bash", "fish", "zsh" }

local RULES, SECTIONS = args.collect {
    { "values", value = "KIND", enum = { "models", "runs" },
        help = "print values of --model, or of the operand of show; for these scripts" },
}

local completion = { words = SHELLS, rules = RULES, sections = SECTIONS }

-- Options whose values are models, and commands whose operands are runs.
local MODELS = { model = true, allow_model = true }
local RUNS = { show = true, resume = true, replay = true, fork = true, diff = true, export = true,
    view = true }

completion.summary = "print a script that completes command lines (bash, zsh, fish)"

completion.about = [[
ponder completion bash|zsh|fish

Prints a script that completes ponder's commands and options:

  bash, zsh   source <(ponder completion bash), in ~/.bashrc or ~/.zshrc
  fish        ponder completion fish > ~/.config/fish/completions/ponder.fish

It also completes models (in config.lua and the list of prices), logged runs, the roles of --models
and the values of options.]]

local function quote(text)
    return "'" .. text:gsub("'", [['\'']]) .. "'"
end

-- Calls f(flag, rule) for each option of a command, in the order of its help.
local function each_option(command, f)
    for _, section in ipairs(command.sections) do
        for _, name in ipairs(section.names) do
            f(args.flag(name), command.rules[name], name)
        end
    end
end

-- The possible values of an option, if they are known.
local function words_of(command, name, rule)
    if rule.enum then
        return rule.enum
    elseif name ~= "models" then
        return nil
    end
    local ok, library = pcall(require, "ponder.strategy." .. command.name)
    local words = {}
    for i, role in ipairs(ok and library.roles and library.roles() or {}) do
        words[i] = role .. "="
    end
    return words[1] and words
end

local write = {}

-------------------------------------------------------------------------------

local BASH = [[
# bash completion of ponder
# Bash splits words at : and =, so this takes the word before the cursor from the line, and removes
# its part up to the last : or = from the replies.
_ponder() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files= i
    if [ -n "$COMP_LINE" ]; then
        local line=${COMP_LINE:0:COMP_POINT}
        local -a typed
        read -ra typed <<<"$line"
        case "$line" in *' ') typed+=('') ;; esac
        cur=${typed[${#typed[@]}-1]}
        before=${typed[${#typed[@]}-2]}
    fi
    case "$cur" in
    --*=*) before=${cur%%%%=*}; cur=${cur#*=} ;;
    esac
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W %s -- "$cur"))
        return # a script, where no command fits
    fi
    case "${COMP_WORDS[1]} $before" in
%s
    *) _ponder_words ;;
    esac
    local cut=${cur%%"${cur##*[:=]}"}
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$cut"}; done
}
_ponder_models() {
    COMPREPLY=($(compgen -W "$(ponder completion --values models 2>/dev/null)" -- "$cur"))
}
_ponder_words() {
    case "${COMP_WORDS[1]}" in
%s
    *) return ;;
    esac
    case "$cur" in
    -*) ;;
    *) words=${words##*--help} ;;
    esac
    case " %s " in
    *" ${COMP_WORDS[1]} "*)
        case "$cur" in
        -*) ;;
        *) words="$words $(ponder completion --values runs 2>/dev/null)" ;;
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [ -n "$files" ] || compopt +o default 2>/dev/null
}
complete -o default -F _ponder ponder
]]

function write.bash(commands)
    local names, values, words = {}, {}, {}
    for i, command in ipairs(commands) do
        names[i] = command.name
        local flags = {}
        each_option(command, function(flag, rule, name)
            flags[#flags + 1] = flag
            local known = words_of(command, name, rule)
            local case = quote(command.name .. " " .. flag)
            if known then
                values[#values + 1] = ('    %s) COMPREPLY=($(compgen -W %s -- "$cur")) ;;')
                    :format(case, quote(table.concat(known, " ")))
            elseif MODELS[name] then
                values[#values + 1] = ("    %s) _ponder_models ;;"):format(case)
            elseif rule.value then
                values[#values + 1] = ("    %s) %sreturn ;;"):format(case,
                    rule.files and "" or "compopt +o default 2>/dev/null; ")
            end
        end)
        words[i] = ("    %s) words=%s%s ;;"):format(command.name,
            quote(("%s --help %s"):format(table.concat(flags, " "),
                table.concat(command.words, " "))), command.files and " files=1" or "")
    end
    names[#names + 1] = "--help --version"
    return BASH:format(quote(table.concat(names, " ")), table.concat(values, "\n"),
        table.concat(words, "\n"), table.concat(options.names(RUNS), " "))
end

-------------------------------------------------------------------------------

local ZSH = [[
#compdef ponder
_ponder_models() {
    compadd -- ${(f)"$(ponder completion --values models 2>/dev/null)"}
}
_ponder_runs() {
    compadd -- ${(f)"$(ponder completion --values runs 2>/dev/null)"}
    _files
}
_ponder() {
    local -a commands=(
%s
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        _files -g '*.lua'
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
%s
    *) _files ;;
    esac
}
if [ "$funcstack[1]" = _ponder ]; then _ponder "$@"; else compdef _ponder ponder; fi
]]

local function zsh_help(text)
    return (text:gsub("[%[%]:\\]", "\\%0"))
end

function write.zsh(commands)
    local names, cases = {}, {}
    for i, command in ipairs(commands) do
        names[i] = "        " .. quote(command.name .. ":" .. zsh_help(command.summary))
        local words = { "    " .. command.name .. ") _arguments" }
        each_option(command, function(flag, rule, name)
            local value, known = "", words_of(command, name, rule)
            if known then
                value = (":%s:(%s)"):format(zsh_help(rule.value), table.concat(known, " "))
            elseif MODELS[name] then
                value = ":model:_ponder_models"
            elseif rule.value then
                value = (":%s:%s"):format(zsh_help(rule.value), rule.files and "_files" or "")
            end
            words[#words + 1] = quote(("%s[%s]%s"):format(flag, zsh_help(rule.help or ""), value))
        end)
        words[#words + 1] = "'--help[show help]'"
        if RUNS[command.name] then
            words[#words + 1] = "'*:run:_ponder_runs'"
        elseif command.files then
            words[#words + 1] = "'*:file:_files'"
        elseif command.words[1] then
            words[#words + 1] = quote("*:word:(" .. table.concat(command.words, " ") .. ")")
        end
        cases[i] = table.concat(words, " \\\n        ") .. " ;;"
    end
    return ZSH:format(table.concat(names, "\n"), table.concat(cases, "\n"))
end

-------------------------------------------------------------------------------

local function fish_quote(text)
    return "'" .. text:gsub("[\\']", "\\%0") .. "'"
end

function write.fish(commands)
    local lines = { "# fish completion of ponder" }
    local function add(condition, rest)
        lines[#lines + 1] = ("complete -c ponder -n %s %s"):format(fish_quote(condition), rest)
    end
    for _, command in ipairs(commands) do
        local here = "__fish_seen_subcommand_from " .. command.name
        add("__fish_use_subcommand", ("-a %s -d %s"):format(command.name,
            fish_quote(command.summary)))
        each_option(command, function(flag, rule, name)
            local long, known = flag:match("^%-%-(.*)$"), words_of(command, name, rule)
            local value = known and "-x -a " .. fish_quote(table.concat(known, " ")) .. " "
                or MODELS[name] and "-x -a '(ponder completion --values models 2>/dev/null)' "
                or rule.value and (rule.files and "-r " or "-x ") or ""
            add(here, ("%s %s%s"):format(long and "-l " .. long or "-s " .. flag:sub(2), value,
                "-d " .. fish_quote(rule.help or "")))
        end)
        add(here, "-l help -d 'show help'")
        if RUNS[command.name] then
            add(here, "-a '(ponder completion --values runs 2>/dev/null)'")
        end
        if command.words[1] then
            add(here, "-f -a " .. fish_quote(table.concat(command.words, " ")))
        elseif not command.files then
            add(here, "-f")
        end
    end
    return table.concat(lines, "\n") .. "\n"
end

-------------------------------------------------------------------------------

local values = {}

-- Aliases in config.lua and models with a known price; asks no server.
function values.models()
    local found = {}
    local ok, config = pcall(model_name.load_config, os.getenv)
    for alias in pairs(ok and type(config) == "table" and config.aliases or {}) do
        found[#found + 1] = alias
    end
    for name in pairs(prices) do
        found[#found + 1] = not name:find("[*/]") and name or nil
    end
    table.sort(found)
    return found
end

-- The names of the logged runs, newest first.
function values.runs()
    local found = {}
    for i, one in ipairs(kept.list()) do
        found[i] = one.name
    end
    return found
end

---See ponder.cli.
function completion.run(opts, operands)
    if opts.values then
        for _, value in ipairs(values[opts.values]()) do
            print(value)
        end
        return 0
    end
    local made = #operands == 1 and write[operands[1]]
    if not made then
        return nil, "expected bash, zsh or fish"
    end
    io.write(made(cli.commands()))
    return 0
end

return completion
