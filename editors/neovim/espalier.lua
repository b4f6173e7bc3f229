-- Starts espalier lsp for YAML and JSON files, in Neovim 0.7 and later. Copy this file to
-- ~/.config/nvim/plugin/espalier.lua.
--
-- Neovim 0.8 and later, with lspconfig or without, may use vim.lsp.start or vim.lsp.config instead:
-- see the README in the directory above.

local clients = {}

-- The folder of a file is the nearest one with a configuration file or a repository.
local function root(file)
  local dir = vim.fn.fnamemodify(file, ":p:h")
  for _, name in ipairs({ ".espalier.yaml", ".git" }) do
    local at = dir
    while true do
      local path = at .. "/" .. name
      if vim.fn.filereadable(path) == 1 or vim.fn.isdirectory(path) == 1 then
        return at
      end
      local parent = vim.fn.fnamemodify(at, ":h")
      if parent == at then
        break
      end
      at = parent
    end
  end
  return dir
end

vim.api.nvim_create_autocmd("FileType", {
  pattern = { "yaml", "json" },
  callback = function(event)
    local file = vim.api.nvim_buf_get_name(event.buf)
    if file == "" or vim.bo[event.buf].buftype ~= "" then
      return
    end
    local dir = root(file)
    if not clients[dir] then
      clients[dir] = vim.lsp.start_client({
        name = "espalier",
        cmd = { "espalier", "lsp" },
        root_dir = dir,
        workspace_folders = { { uri = vim.uri_from_fname(dir), name = vim.fn.fnamemodify(dir, ":t") } },
        on_exit = function()
          clients[dir] = nil
        end,
      })
    end
    if clients[dir] then
      vim.lsp.buf_attach_client(event.buf, clients[dir])
    end
  end,
})
