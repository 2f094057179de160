--- `--attach FILE`: texts and images beside a question.

local base64 = require "ponder.base64"
local log = require "ponder.log"
local quote = require "ponder.quote"
local read_file = require("ponder.file").read

local attach = {}

local MAX_BYTES = 20 * 1024 * 1024

local IMAGES = { { "^\x89PNG\r\n\x1A\n", "image/png" }, { "^\xFF\xD8\xFF", "image/jpeg" },
    { "^GIF8[79]a", "image/gif" }, { "^RIFF....WEBP", "image/webp" } }

-- What a file is, as the log has it.
local function read(path)
    local bytes, message = read_file(path, MAX_BYTES)
    if not bytes then
        return nil, message
    end
    for _, image in ipairs(IMAGES) do
        if bytes:find(image[1]) then
            return { media_type = image[2], data = base64.encode(bytes) }
        end
    end
    if not utf8.len(bytes) or bytes:find "%z" then
        return nil, path .. ": neither an image (PNG, JPEG, GIF, WebP) nor UTF-8 text"
    end
    return { text = bytes }
end

---The content of a message: a question, and files.
---@param question string
---@param paths string[]
---@param m ponder.model.Model that is asked
---@return string|table[]? content parts, in the form of the model's provider, if there are images
---@return string? message what is wrong with a file
function attach.content(question, paths, m)
    local texts, images = {}, {}
    for _, path in ipairs(paths) do
        local file, message = log.record("chat.attach", { path = path }, read, path)
        if not file then
            return nil, message
        elseif file.text then
            texts[#texts + 1] = quote.tagged("file", ("%s\n\n%s"):format(path, file.text),
                math.maxinteger)
        elseif not m.target.provider.image then
            return nil, ("%s: %s takes no images"):format(path, m.name)
        else
            images[#images + 1] = m.target.provider.image(file.media_type, file.data)
        end
    end
    texts[#texts + 1] = question
    local text = table.concat(texts, "\n\n")
    if not images[1] then
        return text
    end
    images[#images + 1] = { type = "text", text = text }
    return images
end

return attach
