;;; espalier.el --- Start espalier lsp for YAML and JSON files with eglot -*- lexical-binding: t -*-

;; Load this file in init.el: (load "/path/to/espalier.el"). It needs eglot, which Emacs 29
;; includes, and a mode for YAML: yaml-mode, or yaml-ts-mode of Emacs 29.

(require 'eglot)

(add-to-list 'eglot-server-programs
             '((yaml-mode yaml-ts-mode json-mode json-ts-mode js-json-mode) . ("espalier" "lsp")))

(dolist (hook '(yaml-mode-hook yaml-ts-mode-hook json-mode-hook json-ts-mode-hook js-json-mode-hook))
  (add-hook hook #'eglot-ensure))

;;; espalier.el ends here
