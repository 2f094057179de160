--- Evaluations of other tools' files as Lua: `ponder eval FILE` runs it, `ponder init --from FILE`
--- writes it.

local files = require "ponder.run.log.files"

local source = {}

local KINDS = { yaml = "promptfoo", yml = "promptfoo", json = "json", jsonl = "dataset",
    csv = "dataset", tsv = "dataset" }

---Whether a file is to be converted, by its name.
function source.is_foreign(path)
    return KINDS[path:match "%.(%l+)$"] ~= nil
end

---Converts a configuration of promptfoo (YAML, JSON), or a data set as OpenAI's Evals (JSON Lines)
---and inspect_ai (JSON, JSON Lines, CSV) have it.
---@param reference string its name in the Lua
---@return string? lua
---@return string[]|string notes what is not carried over, one line each; or what is wrong
---@return "UNREADABLE"? code
function source.convert(path, reference)
    local kind, directory = KINDS[path:match "%.(%l+)$"], path:match "^(.*)/" or "."
    local text, message, code = files.read(path, "script")
    if not text then
        return nil, message, code
    elseif kind == "json" then
        kind = text:find "^%s*{" and "promptfoo" or "dataset"
    end
    local lua, notes
    if kind == "promptfoo" then
        lua, notes = require "ponder.judge.import.promptfoo"(text, path, directory)
    else
        lua, notes = require "ponder.judge.import.dataset"(path, reference)
    end
    if not lua then
        return nil, notes
    end
    local head = { ("-- An evaluation, from %s. Run it with: ponder eval FILE"):format(
        path:match "[^/]*$":gsub("%c", "?")) }
    for i, note in ipairs(notes) do
        head[#head + 1] = (i == 1 and "--\n-- Other than there:\n--     " or "--     ")
            .. note:gsub("%c", " ")
    end
    return table.concat(head, "\n") .. "\n\n" .. lua, notes
end

return source
